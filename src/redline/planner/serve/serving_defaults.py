"""What is looked at in a plan of serving unless something else is chosen. Imports no NumPy, as the help shows it."""

ENGINE = "SGLang"
SIZES = (1, 2, 4, 8)
"""Devices that hold one copy."""
LOADS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Requests in flight on one copy."""
