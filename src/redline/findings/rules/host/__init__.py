"""Rules about a host that launches too slowly, waits for the device, or is busy with something else."""
