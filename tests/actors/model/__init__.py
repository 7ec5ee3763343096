"""Rules about model calls."""
