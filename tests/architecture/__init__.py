"""Rules about the source itself."""
