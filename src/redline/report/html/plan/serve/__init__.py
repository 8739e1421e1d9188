"""The page of a plan of serving."""
