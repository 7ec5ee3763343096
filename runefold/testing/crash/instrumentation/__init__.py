"""An app's runtime opened so that every append, message and effect is recorded."""
