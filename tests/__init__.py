"""The tests: they mirror the sources, and each says a rule that holds."""
