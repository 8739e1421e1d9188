"""Serving engines in a process of the job: their steps, and their requests."""
