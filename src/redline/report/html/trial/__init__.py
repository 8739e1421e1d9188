"""The page of a change that was tried."""
