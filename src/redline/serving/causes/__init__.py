"""Why requests wait: one module per cause that the records of an engine show."""
