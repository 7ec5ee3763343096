"""The one shell around a law, and what the actors of a conversation share."""
