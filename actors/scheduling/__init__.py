"""How actors run: on one thread by a loop, with a pool for what blocks; or by hand."""
