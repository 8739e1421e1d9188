"""How the plan of a training job is told."""
