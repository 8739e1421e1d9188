"""Rules about serving engines."""
