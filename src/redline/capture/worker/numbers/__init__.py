"""Records the numbers of a job by value: loss, outputs of modules, gradients, movement of parameters."""
