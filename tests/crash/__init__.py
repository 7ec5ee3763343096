"""What the log survives: power cuts, kills, faults of the disk, flipped bits, other processes."""
