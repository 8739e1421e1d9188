"""Where the work on files is done: in this process, in a pool of processes, or by tasks of Ray."""
