"""Answers of the lake."""
