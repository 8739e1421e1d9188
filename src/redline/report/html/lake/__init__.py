"""The page of an answer of the lake."""
