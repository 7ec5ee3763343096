"""The session: one conversation's front: its queue of messages, its agents, its pauses and end."""
