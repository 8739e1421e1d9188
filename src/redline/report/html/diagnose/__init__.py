"""The page of a diagnosis."""
