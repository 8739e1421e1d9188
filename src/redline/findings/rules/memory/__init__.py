"""Rules about the memory of the device and its allocator."""
