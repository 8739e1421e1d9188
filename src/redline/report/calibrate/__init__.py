"""Calibrations, two of them side by side, and what collectives do."""
