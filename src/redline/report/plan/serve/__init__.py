"""The report of a serving plan."""
