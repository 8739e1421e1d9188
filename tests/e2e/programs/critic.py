"""A Wasserstein GAN: the critic takes five steps to each one of the generator.

A step is one of the generator, with the five of the critic before it.
"""

import argparse

import torch
from torch import nn

CRITIC_STEPS, LIMIT = 5, 0.05


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 2))
    critic = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 1))
    for_generator = torch.optim.RMSprop(generator.parameters(), lr=5e-4)
    for_critic = torch.optim.RMSprop(critic.parameters(), lr=5e-4)
    for step in range(1, steps + 1):
        for _ in range(CRITIC_STEPS):
            real, fake = torch.randn(32, 2) + 3, generator(torch.randn(32, 8)).detach()
            distance = critic(fake).mean() - critic(real).mean()
            for_critic.zero_grad()
            distance.backward()
            for_critic.step()
            with torch.no_grad():
                for parameter in critic.parameters():
                    parameter.clamp_(-LIMIT, LIMIT)

        loss = -critic(generator(torch.randn(32, 8))).mean()
        for_generator.zero_grad()
        loss.backward()
        for_generator.step()
        if step % 10 == 0:
            print(f"step {step}  loss {loss.item():.6f}")
    print(f"done: {steps} steps")


if __name__ == "__main__":
    main()
