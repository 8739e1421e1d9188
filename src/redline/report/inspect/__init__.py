"""What is in traces."""
