"""HF Trainer saves a checkpoint every fourth step (save_steps=4); the twin saves every thousand steps."""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from bench.common import Label, arguments

LABEL = Label(cause="host/checkpoint_saved_often", says=("checkpoint", "save"), pattern="every 4 steps", style="hf")


def main(flawed: bool, steps: int) -> None:
    ids = torch.randint(0, 1024, (2 * steps, 64))
    data = [{"input_ids": row, "labels": row} for row in ids]
    model = GPT2LMHeadModel(GPT2Config(vocab_size=1024, n_positions=64, n_embd=384, n_layer=3, n_head=6))
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            folder,
            max_steps=steps,
            per_device_train_batch_size=2,
            use_cpu=True,
            report_to="none",
            save_strategy="steps",
            save_steps=4 if flawed else 1000,
            save_total_limit=1,
            logging_strategy="no",
            disable_tqdm=True,
            optim="adamw_torch_fused",
        )
        Trainer(model=model, args=options, train_dataset=data).train()


if __name__ == "__main__":
    main(*arguments())
