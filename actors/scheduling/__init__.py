"""How actors run: clocks and schedulers, on threads or by hand."""
