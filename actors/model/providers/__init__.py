"""Ways to reach a model, one module each; none knows another."""
