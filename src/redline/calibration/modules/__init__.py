"""Loads a user's module and traces it on the meta device. Imported only where torch is there."""
