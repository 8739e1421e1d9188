"""All layouts of a job, the best of them, and why."""
