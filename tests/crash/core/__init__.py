"""Crashes of the runtime itself: cut off anywhere, it comes to the same end."""
