"""What must hold after each step and at the end of a run."""
