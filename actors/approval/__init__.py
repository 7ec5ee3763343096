"""A question put to a human: may this happen? It belongs to the asker and has no actor."""
