"""Keeps out of the log what must not be in it: patterns are looked for before anything is kept."""
