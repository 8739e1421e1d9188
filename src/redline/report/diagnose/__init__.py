"""Diagnoses, with their findings."""
