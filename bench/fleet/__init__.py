"""Benches of the fleet: many ranks and many jobs, on engines and stores that exist."""
