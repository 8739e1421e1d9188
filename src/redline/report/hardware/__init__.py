"""Machines of the catalogue."""
