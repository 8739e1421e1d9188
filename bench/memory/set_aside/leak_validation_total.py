"""Leak: the validation loss is added up as a tensor with its graph, so every validation pass stays in memory."""

import sys

import torch
from torch import nn

FLAWED = sys.argv[1] == "flawed"
STEPS = 12


class SensorClassifier(nn.Module):
    def __init__(self, channels: int = 24, hidden: int = 320, classes: int = 6):
        super().__init__()
        self.lstm = nn.LSTM(channels, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, signal):
        output, _ = self.lstm(signal)
        return self.head(output[:, -1])


class Trainer:
    def __init__(self, model):
        self.model = model
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        self.validation_total = torch.zeros(())
        self.validations = 0

    def train_step(self, signal, target):
        loss = self.criterion(self.model(signal), target)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def validate(self, signal, target):
        with torch.set_grad_enabled(FLAWED):
            self.validation_total = self.validation_total + self.criterion(self.model(signal), target)
        self.validations += 1

    def mean_validation_loss(self):
        return self.validation_total.item() / self.validations


def batch_of(generator, size=4, length=16):
    signal = torch.randn(size, length, 24, generator=generator)
    return signal, torch.randint(0, 6, (size,), generator=generator)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(11)
    generator = torch.Generator().manual_seed(12)
    trainer = Trainer(SensorClassifier())
    for step in range(STEPS):
        signal, target = batch_of(generator)
        loss = trainer.train_step(signal, target)
        signal, target = batch_of(generator)
        trainer.validate(signal, target)
        del signal, target
        print(f"step {step}: loss {loss:.4f}, validation {trainer.mean_validation_loss():.4f}")


if __name__ == "__main__":
    main()
