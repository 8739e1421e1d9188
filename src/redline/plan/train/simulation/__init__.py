"""A simulated step, as a timeline."""
