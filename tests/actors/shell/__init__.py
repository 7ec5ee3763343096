"""Rules about the shell and what it works with."""
