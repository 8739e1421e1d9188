"""Serving: what an engine did step by step, and what each request waited for."""
