"""What is on disk: bytes and logs that every later version must read as this one does."""
