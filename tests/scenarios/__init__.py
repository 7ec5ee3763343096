"""Conversations to crash: each can be played again after a crash, and goes on where it was."""
