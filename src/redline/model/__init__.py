"""Model descriptions and their arithmetic: parameters, FLOPs, activations, caches."""
