"""The processes of a sweep: an app run undisturbed, hit, and started again until it ends."""
