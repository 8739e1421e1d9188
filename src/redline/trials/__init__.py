"""Changes held against each other: what differs between two recordings, and whether it is more than noise."""
