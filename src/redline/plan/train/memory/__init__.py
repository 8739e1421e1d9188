"""What a step holds at its peak, and whether a layout can run at all."""
