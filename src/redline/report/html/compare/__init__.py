"""The page of `redline compare`."""
