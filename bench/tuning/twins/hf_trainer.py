"""bench/tuning/jobs/hf_trainer.py, tuned by hand: options of the Trainer."""

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from transformers import Trainer, set_seed

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from bench.tuning.jobs.hf_trainer import StoredTexts, settings, small_gpt2


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    steps = parser.parse_args().steps
    set_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        tuned = replace(
            settings(folder, steps),
            optim="adamw_torch_fused",
            dataloader_num_workers=2,
            dataloader_persistent_workers=True,
            dataloader_pin_memory=False,
        )
        Trainer(model=small_gpt2(), args=tuned, train_dataset=StoredTexts()).train()


if __name__ == "__main__":
    main()
