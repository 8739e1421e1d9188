"""Renderers of a search for better settings: `redline tune`."""
