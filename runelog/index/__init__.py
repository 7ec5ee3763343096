"""What the tables of a segment mean: frames of runes, and the entries by which they are found."""
