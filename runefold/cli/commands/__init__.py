"""Commands to entities: a verb for each, given to a runtime or written into the log."""
