"""The Trainer of Hugging Face transformers: gradient accumulation, and evaluations between steps.

Runs alone and under torchrun. A step is one of the optimizer, `global_step` of the Trainer.
"""

import argparse
import tempfile

import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


class Tokens(Dataset[dict[str, Tensor]]):
    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        tokens = torch.arange(index, index + 16) % 64
        return {"input_ids": tokens, "labels": tokens}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    steps = parser.parse_args().steps
    set_seed(0)
    config = GPT2Config(
        vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=None, eos_token_id=None
    )
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=4,
            eval_strategy="steps",
            eval_steps=10,
            logging_steps=10,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            ddp_find_unused_parameters=False,
            use_cpu=True,
        )
        held_out = torch.utils.data.Subset(Tokens(), range(16))
        trainer = Trainer(GPT2LMHeadModel(config), settings, train_dataset=Tokens(), eval_dataset=held_out)
        trainer.train()
        if trainer.is_world_process_zero():
            print(f"done: {trainer.state.global_step} steps")


if __name__ == "__main__":
    main()
