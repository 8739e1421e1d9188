"""How exact replays and forecasts are."""
