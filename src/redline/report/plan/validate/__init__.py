"""The report of the accuracy of plans."""
