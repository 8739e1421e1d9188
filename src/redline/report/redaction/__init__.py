"""What is taken out of results before others see them: secrets, people, machines, paths."""
