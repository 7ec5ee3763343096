"""Moving conversations and whole logs: export, import and backup."""
