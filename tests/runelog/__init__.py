"""Rules about the log."""
