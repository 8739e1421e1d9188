"""The timeline: what ran when, on which lane of which rank; and the algebra of time."""
