"""Changes that are switched in a process of the job: one lever each, and what several of them need."""
