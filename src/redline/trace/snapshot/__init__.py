"""Memory snapshots of torch (`torch.cuda.memory._dump_snapshot`): one file to columns, nothing of it run."""
