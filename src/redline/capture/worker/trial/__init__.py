"""What happens in a process of the job while a change is tried: blocks, where it ends, and what it must not write."""
