"""`bench/tuning/jobs/lightning_fit.py` with the loader inside of the module, as Lightning's Tuner asks for.

python bench/tuning/other_tools/lightning_batch.py --find      # prints the batch size that the Tuner settles on
python bench/tuning/other_tools/lightning_batch.py --batch 64
"""

import argparse
import sys
from pathlib import Path

import lightning
from lightning.pytorch.tuner import Tuner
from torch import Tensor
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from bench.tuning.jobs.lightning_fit import BATCH, Lines, Training, trainer

DOUBLINGS = 4  # without a limit it goes on until the machine is out of memory


class SizedTraining(Training):
    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size

    def train_dataloader(self) -> DataLoader[Tensor]:
        return DataLoader(Lines(1 << 24), batch_size=self.batch_size)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--find", action="store_true")
    options = parser.parse_args()
    lightning.seed_everything(0, verbose=False)
    module = SizedTraining(options.batch)
    if options.find:
        found = Tuner(trainer(options.steps)).scale_batch_size(
            module, init_val=BATCH, max_trials=DOUBLINGS, steps_per_trial=3
        )
        print(f"batch size: {found}")
        return
    trainer(options.steps).fit(module)
    print(f"done: {options.steps} steps")


if __name__ == "__main__":
    main()
