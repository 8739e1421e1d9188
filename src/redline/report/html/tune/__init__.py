"""The page of a search for better settings."""
