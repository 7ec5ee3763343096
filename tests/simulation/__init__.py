"""The whole runtime on one thread, from seeds: that it holds, and that a bug would be found."""
