"""examples/hf_finetune.py, tuned by hand: options of the Trainer, and compiled blocks."""

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from transformers import Trainer, set_seed

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from examples.hf_finetune import Sentences, settings, small_gpt2


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    steps = parser.parse_args().steps
    set_seed(0)
    model = small_gpt2()
    for block in model.transformer.h:
        block.compile()
    with tempfile.TemporaryDirectory() as folder:
        tuned = replace(
            settings(folder, steps, 1),
            dataloader_num_workers=1,
            dataloader_persistent_workers=True,
            dataloader_pin_memory=False,
        )
        Trainer(model=model, args=tuned, train_dataset=Sentences(4096, seed=0)).train()


if __name__ == "__main__":
    main()
