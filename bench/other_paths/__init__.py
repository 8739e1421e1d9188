"""Critical paths and what-ifs of other tools, beside those of `redline diagnose`."""
