"""The root of the one reserved conversation, `conv_system`: what belongs to no session."""
