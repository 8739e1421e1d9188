"""A step played through, piece by piece, as a timeline."""
