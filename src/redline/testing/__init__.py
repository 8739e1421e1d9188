"""Traces whose true answers are known: synthetic jobs, and damage of every kind. The product never imports it."""
