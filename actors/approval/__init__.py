"""A question put to a human: may this happen? It belongs to whoever asked and has no actor."""
