"""What must hold of everything that actors wrote: one small book-keeping for each rule."""
