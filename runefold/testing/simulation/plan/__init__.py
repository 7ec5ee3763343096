"""Plans of simulations: what they are made of, drawn from a seed, described in words."""
