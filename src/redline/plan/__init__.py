"""The planner: what a training or serving job should take, and how far such predictions are from measurements."""
