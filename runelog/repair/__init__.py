"""Verify, repair and restore: reading what is damaged without trusting it."""
