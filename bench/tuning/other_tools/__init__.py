"""What other tools make of the jobs that they can take, timed beside what `redline tune` makes of them."""
