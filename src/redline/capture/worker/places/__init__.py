"""Where in the user's own files things are made and called that levers change."""
