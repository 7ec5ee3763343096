"""Rules about actors and their laws."""
