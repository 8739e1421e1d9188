"""The result of `memory`: text, Markdown, JSON."""
