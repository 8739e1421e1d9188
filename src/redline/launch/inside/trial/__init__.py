"""What happens in a process of the job while a change is tried: levers, blocks, and where it ends."""
