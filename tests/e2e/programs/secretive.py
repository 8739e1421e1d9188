"""Trains a little. Its arguments, environment and ranges are secrets, which it must get as they were given."""

import os
import sys

import torch
from descent import Descent

expected = os.environ.pop("EXPECTED_ARGUMENTS").split("\n")
if sys.argv[1:] != expected or os.environ["HF_TOKEN"] not in expected:
    sys.exit(9)
model = torch.nn.Linear(8, 8)
optimizer = Descent(model.parameters(), lr=0.001)
for _ in range(8):
    with torch.profiler.record_function(f"load token={os.environ['HF_TOKEN']}"):
        batch = torch.ones(4, 8)
    loss = model(batch).sum()
    for name, value in zip(expected[::2], expected[1::2], strict=False):
        with torch.profiler.record_function(f"{name}={value}"):
            loss = loss + model(batch).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
