"""A question put to a human: may this happen? It belongs to its asker and has no actor."""
