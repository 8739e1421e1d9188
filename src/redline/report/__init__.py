"""Results as text, Markdown, JSON, CSV and HTML, in a folder per verb; nothing is computed here."""
