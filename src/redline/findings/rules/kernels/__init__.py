"""Rules about kernels that take longer than they need to."""
