"""Rules about the crash kit itself: what it must find, and what it must leave alone."""
