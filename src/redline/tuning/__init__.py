"""Finds the levers that make an unchanged script faster, one proven step at a time."""
