"""Several ranks of a job: their files, their order, the collectives that they share, their clocks."""
