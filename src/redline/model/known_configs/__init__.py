"""Published configs of well-known models: data only. Each file says whose it is under `_source`."""
