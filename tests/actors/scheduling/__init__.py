"""Rules about how actors run."""
