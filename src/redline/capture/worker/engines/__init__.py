"""What serving engines do in a process of the job: their steps, and their requests."""
