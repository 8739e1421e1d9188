"""Pages that need nothing else, in a folder per verb; what every page has stands here."""
