"""The bench of causes: labelled jobs and timelines, each with a healthy twin, and how often Redline names the cause."""
