"""How the accuracy of plans is told."""
