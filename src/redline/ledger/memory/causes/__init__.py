"""Why memory is full: each cause with the most bytes that mending it can save."""
