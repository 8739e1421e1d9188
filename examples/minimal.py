"""A minimal training loop: a small convolutional network learns ten kinds of noisy images.

    python examples/minimal.py --steps 400

The images are made up while the program runs; nothing is downloaded. Uses a GPU if there is one.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES, IMAGES, BATCH = 10, 4096, 64


def noisy_images() -> TensorDataset:
    """Images of 28 x 28 pixels: each is the pattern of its class under noise."""
    patterns = torch.rand(CLASSES, 1, 28, 28)
    labels = torch.randint(CLASSES, (IMAGES,))
    return TensorDataset(patterns[labels] + torch.randn(IMAGES, 1, 28, 28), labels)


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 7 * 7, 128),
        nn.ReLU(),
        nn.Linear(128, CLASSES),
    )


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor) -> Tensor:
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    steps = parser.parse_args().steps

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(noisy_images(), batch_size=BATCH, shuffle=True)
    model = network().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    step = 0
    while step < steps:
        for images, labels in loader:
            loss = train_step(model, optimizer, images.to(device), labels.to(device))
            step += 1
            if step % 50 == 0 or step == steps:
                print(f"step {step:4d}  loss {loss.item():.4f}")
            if step == steps:
                break
    print(f"done: {step} steps")


if __name__ == "__main__":
    main()
