"""Whether a run that was hit lost or repeated anything, or came to another end."""
