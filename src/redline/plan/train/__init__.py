"""What a step of training should cost, in time and memory: closed forms on columns of models, layouts and machines."""
