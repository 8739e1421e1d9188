"""Trains a small GPT for a number of steps, and prints what its loop took: wall and CPU seconds of this process."""

import argparse
import json
import time

import small_gpt  # type: ignore[import-not-found]  # beside this file
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset


class Tokens(Dataset[Tensor]):
    def __init__(self, steps: int, batch: int) -> None:
        self._steps, self._batch = steps, batch

    def __len__(self) -> int:
        return self._steps

    def __getitem__(self, index: int) -> Tensor:
        shape = (self._batch, small_gpt.CONTEXT)
        return torch.randint(small_gpt.VOCABULARY, shape, generator=torch.Generator().manual_seed(index))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(*small_gpt.layers())
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    total = 0.0
    for tokens in DataLoader(Tokens(options.steps, options.batch), batch_size=None):
        loss = small_gpt.loss_of(model(tokens), tokens)
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        total += loss.item()
    spent = {"wall_s": time.perf_counter() - wall_s, "cpu_s": time.process_time() - cpu_s, "loss": total}
    print(json.dumps(spent))


if __name__ == "__main__":
    main()
