"""The reports of plans: training, serving, and their validation."""
