"""From timelines to the ledger: each rank on its own, then all ranks of a job together."""
