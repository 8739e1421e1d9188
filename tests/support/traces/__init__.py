"""Synthetic traces of jobs whose true answers are known. The product never imports it."""
