"""Labelled jobs that hold more memory than they need, each with a twin that does not."""
