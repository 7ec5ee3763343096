"""One call of a model: it streams an answer, and is charged for exactly once."""
