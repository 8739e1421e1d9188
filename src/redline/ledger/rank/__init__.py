"""One rank: from its timeline to its ledger and its digest. Nothing here knows of other ranks."""
