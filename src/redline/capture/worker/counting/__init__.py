"""When a step of the job ends."""
