"""Reading a log: its segments, looking conversations up, and following what is committed."""
