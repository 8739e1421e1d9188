"""How well `redline compare` measures: programs against themselves, and against ones with known extra work."""
