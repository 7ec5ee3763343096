"""Rules about tools: their calls, and the policy that judges them."""
