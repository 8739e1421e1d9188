"""A GAN with two optimizers: in each iteration the discriminator learns, then the generator.

A step is an iteration, that is one step of either.
"""

import argparse

import torch
from descent import Descent
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 2))
    discriminator = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    for_generator = Descent(generator.parameters(), lr=1e-3)
    for_discriminator = Descent(discriminator.parameters(), lr=1e-3)
    yes, no = torch.ones(32, 1), torch.zeros(32, 1)
    for step in range(1, steps + 1):
        real, fake = torch.randn(32, 2) + 3, generator(torch.randn(32, 8))
        doubt = binary_cross_entropy_with_logits(discriminator(real), yes)
        doubt = doubt + binary_cross_entropy_with_logits(discriminator(fake.detach()), no)
        for_discriminator.zero_grad()
        doubt.backward()
        for_discriminator.step()

        unmasked = binary_cross_entropy_with_logits(discriminator(fake), yes)
        for_generator.zero_grad()
        unmasked.backward()
        for_generator.step()
        if step % 10 == 0:
            print(f"step {step}  discriminator {doubt.item():.6f}  generator {unmasked.item():.6f}")
    print(f"done: {steps} steps")


if __name__ == "__main__":
    main()
