"""Laws that hold for every kind: a new one is tested by being listed in the catalogue."""
