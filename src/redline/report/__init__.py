"""Results as text, Markdown and JSON; nothing is computed here."""
