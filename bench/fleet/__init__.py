"""Jobs of many ranks: in stores that fail."""
