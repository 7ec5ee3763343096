"""The framed, compressed, checksummed stream in which conversations travel and are archived."""
