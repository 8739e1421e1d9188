"""A small training loop for trials: `redline.switch("slow")` adds a nap to a step; options add other behaviour."""

import argparse
import os
import time

import torch
import torch.distributed
from descent import Descent, average_gradients

import redline

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100_000)
parser.add_argument("--nap-ms", type=float, default=0.0)
parser.add_argument("--save")
parser.add_argument("--save-at", type=int, default=15)
parser.add_argument("--double", action="store_true", help="a gradient is twice what it should be")
options = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
optimizer = Descent(model.parameters(), lr=1e-3)
if options.double:
    next(model.parameters()).register_hook(lambda gradient: 2 * gradient)
for step in range(options.steps):
    model(torch.randn(16, 32)).square().mean().backward()
    if "RANK" in os.environ:
        average_gradients(model)
    time.sleep(0.002 + options.nap_ms / 1000 + (0.02 if redline.switch("slow") else 0.0))
    optimizer.step()
    optimizer.zero_grad()
    if options.save and step == options.save_at:
        torch.save(model.state_dict(), options.save)
