"""What serving a model should cost, in time and memory: closed forms on columns of models, deployments and machines."""
