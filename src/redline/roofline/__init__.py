"""The work of operators, and the least time that a machine needs for it (roofline)."""
