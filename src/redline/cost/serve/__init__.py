"""What serving a model should cost: time to the first token, time per token, throughput, memory."""
