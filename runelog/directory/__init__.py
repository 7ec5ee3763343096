"""The directory of a log: who owns it, which files it holds, how they are replaced or removed."""
