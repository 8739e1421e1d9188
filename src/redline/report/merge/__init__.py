"""Traces that were merged."""
