"""What the causes of serving are scored on: servers under load, each with a flaw and a healthy twin."""
