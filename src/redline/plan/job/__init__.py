"""What a whole job should cost: days, money, energy, and what failures take of them."""
