"""Windows of steps: opened, recorded, and written beside the job."""
