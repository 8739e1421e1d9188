"""What `redline tune` is scored on: jobs with hand-tuned twins, planted traps, and kills."""
