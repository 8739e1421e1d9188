"""Renderers of a change that was tried: `redline compare` of programs."""
