"""What is said of a serving engine and its requests."""
