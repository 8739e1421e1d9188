"""The layout of a plan in the words of a framework: its launch arguments or its config."""
