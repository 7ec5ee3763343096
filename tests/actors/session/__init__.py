"""Rules about the session's law."""
