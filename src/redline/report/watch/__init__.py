"""The windows of a job as they come: a line each."""
