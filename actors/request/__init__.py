"""A request from an entity to another conversation: sent until its answer is back."""
