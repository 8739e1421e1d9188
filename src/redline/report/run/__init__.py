"""Runs that are over, and jobs that stand still."""
