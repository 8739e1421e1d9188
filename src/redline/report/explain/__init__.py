"""What `explain` prints."""
