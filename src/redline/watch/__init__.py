"""A long job as a series of windows: what each shows, and which of them changed against the job's own history."""
