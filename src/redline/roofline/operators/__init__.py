"""The work of operators, one module per family. Each has RULES: name of an operator to the function that rates it."""
