"""Ways to run a tool: one module each, and none knows another."""
