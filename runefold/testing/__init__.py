"""The kit that runefold is tested with, for testing what is built on it."""
