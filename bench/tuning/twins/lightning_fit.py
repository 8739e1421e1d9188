"""bench/tuning/jobs/lightning_fit.py, tuned by hand: a worker and a fused optimizer; compiling gained nothing more."""

import argparse
import sys
from pathlib import Path

import lightning
import torch
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from bench.tuning.jobs.lightning_fit import BATCH, Lines, Training, trainer


class TunedTraining(Training):
    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    steps = parser.parse_args().steps
    lightning.seed_everything(0, verbose=False)
    training = TunedTraining()
    trainer(steps).fit(training, DataLoader(Lines(steps * BATCH), batch_size=BATCH, num_workers=1))


if __name__ == "__main__":
    main()
