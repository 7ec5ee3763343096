"""The world that a runtime is played in: users, models, tools, a disk, and what goes wrong."""
