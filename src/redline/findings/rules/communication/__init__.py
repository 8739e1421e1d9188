"""Rules about exchanges between ranks: what they cost, what they wait for, what could hide them."""
