"""The agent: a role with a model, tools and a budget, that runs one turn at a time."""
