"""What a step takes: pieces of it alone, and closed forms that put them together."""
