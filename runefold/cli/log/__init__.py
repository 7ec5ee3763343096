"""The commands of `runefold log`: inspect, verify, move, archive, repair and back up a log."""
