"""The page of the plan of a training job."""
