"""Changes that `redline tune` must not adopt: a script with planted mistakes, and what is to be said of each."""
