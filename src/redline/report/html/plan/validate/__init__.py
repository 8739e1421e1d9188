"""The page of the accuracy of plans."""
