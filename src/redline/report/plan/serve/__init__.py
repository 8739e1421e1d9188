"""How a plan of serving is told."""
