"""Families of models: from the fields of their config.json to a description. One module per kind."""
