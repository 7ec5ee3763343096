"""Rules about requests to other conversations."""
