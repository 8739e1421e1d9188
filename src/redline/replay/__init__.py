"""What if: a step as a graph of what waited for what, its critical path, and the step with something changed."""
