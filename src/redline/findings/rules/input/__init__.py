"""Rules about loading batches and copying them to the device."""
