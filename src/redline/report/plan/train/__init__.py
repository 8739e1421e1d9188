"""The report of a training plan."""
