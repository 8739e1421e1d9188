"""What should happen: the work of operators and the time that a machine needs for it at best."""
