"""What the hardware can do: published figures, calibrated profiles, and which of them a device is."""
