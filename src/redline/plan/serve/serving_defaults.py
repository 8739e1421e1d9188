"""What is looked at in a plan of serving unless something else is chosen. Imports no NumPy, as the help shows it."""

ENGINE = "SGLang"
ENGINES = ("vllm", "sglang")
"""Whose command a way to serve can be written as."""
SIZES = (1, 2, 4, 8)
"""Devices that hold one copy."""
ACCEPTED_CHANCE = 0.2
"""Of missing a limit: a way to serve with more is not proposed where another keeps the limits more surely."""
LOADS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Requests in flight on one copy."""
