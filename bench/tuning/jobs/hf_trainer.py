"""A small GPT-2 with the Trainer of Hugging Face, whose texts come from a store that takes a moment to answer.

    python bench/tuning/jobs/hf_trainer.py

The texts are made up; nothing is downloaded, and nothing is written outside of a folder that is removed.
"""

import argparse
import tempfile
import time

import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

VOCABULARY, LENGTH, TEXTS, BATCH = 512, 64, 4096, 8
ANSWER_S = 0.003  # of the store, for one text


class StoredTexts(Dataset[dict[str, Tensor]]):
    """One text per question; nobody asks ahead."""

    def __len__(self) -> int:
        return TEXTS

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        time.sleep(ANSWER_S)
        chance = torch.Generator().manual_seed(index)
        tokens = torch.randint(VOCABULARY // 8, (LENGTH,), generator=chance).cumsum(0) % VOCABULARY
        return {"input_ids": tokens, "labels": tokens}


def small_gpt2() -> GPT2LMHeadModel:
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=LENGTH,
        n_embd=128,
        n_layer=4,
        n_head=4,
        bos_token_id=None,
        eos_token_id=None,
    )
    return GPT2LMHeadModel(config)


def settings(folder: str, steps: int) -> TrainingArguments:
    return TrainingArguments(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=BATCH,
        learning_rate=1e-3,
        optim="adamw_torch",
        logging_steps=50,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    steps = parser.parse_args().steps
    set_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        Trainer(model=small_gpt2(), args=settings(folder, steps), train_dataset=StoredTexts()).train()
    print(f"done: {steps} steps")


if __name__ == "__main__":
    main()
