"""How a plan is told: of training, of serving, and how well plans predicted what was measured."""
