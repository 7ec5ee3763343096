"""Where an app can be hit, what it can be hit with, and which of these points a sweep tries."""
