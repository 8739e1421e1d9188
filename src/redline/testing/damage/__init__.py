"""Every way in which real traces are broken, on demand."""
