"""The trainer accumulates sixteen micro-batches of one short text each; the twin takes the sixteen texts at once."""

import tempfile

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, Trainer, TrainingArguments

from bench.set_aside_2.common import Label, arguments, begin

LABEL = Label(
    cause="kernels/micro_batch_too_small",
    says=("micro-batch", "batch_size", "batch size", "accumul", "small"),
    style="hf",
)
BATCH, LENGTH = 16, 24


def main(flawed: bool, steps: int) -> None:
    begin()
    config = GPTNeoXConfig(
        vocab_size=1500,
        hidden_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=1024,
        max_position_embeddings=LENGTH,
        attn_implementation="sdpa",
    )
    texts = torch.randint(1500, (BATCH * steps, LENGTH))
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            folder,
            max_steps=steps,
            per_device_train_batch_size=1 if flawed else BATCH,
            gradient_accumulation_steps=BATCH if flawed else 1,
            optim="adamw_torch_fused",
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        rows = [{"input_ids": text, "labels": text} for text in texts]
        Trainer(model=GPTNeoXForCausalLM(config), args=options, train_dataset=rows).train()


if __name__ == "__main__":
    main(*arguments())
