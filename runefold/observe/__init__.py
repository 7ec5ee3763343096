"""What can be seen of a log and of the runtime that writes it: nothing here changes either."""
