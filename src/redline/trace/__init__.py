"""What did happen: traces read, repaired, linked, cached, placed among the ranks of a job, and written again."""
