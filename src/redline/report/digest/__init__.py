"""Digests that were written."""
