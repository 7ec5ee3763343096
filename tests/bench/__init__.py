"""Rules about what is measured, and how."""
