"""Rules about turns."""
