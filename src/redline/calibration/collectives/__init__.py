"""What the ranks of a process group do together, measured: times, laws, slow ranks and slow links."""
