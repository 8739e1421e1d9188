"""What `tune` does with levers: finding the best ones, and handing them over."""
