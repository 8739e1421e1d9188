"""Inference: a trained model (well, a random one) is called with batch after batch. There is no optimizer.

A step is one call of the model.
"""

import argparse

import torch
from torch import Tensor, nn


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.encoder(inputs).mean(dim=1))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    model = Classifier().eval()
    found = torch.zeros(10, dtype=torch.long)
    with torch.no_grad():
        for _ in range(steps):
            classes = model(torch.randn(8, 16, 64)).argmax(dim=-1)
            found += classes.bincount(minlength=10)
    print(f"found {found.tolist()}")
    print(f"done: {steps} steps")


if __name__ == "__main__":
    main()
