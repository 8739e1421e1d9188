"""Renderers of `redline compare`."""
