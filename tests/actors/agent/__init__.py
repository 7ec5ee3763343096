"""Rules about the agent's law."""
