"""HF Trainer with gradient_checkpointing=True for a model that fits many times; the twin has it off."""

import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

from bench.common import Label, arguments

LABEL = Label(cause="memory/needless_checkpointing", says=("checkpointing", "recompute", "recomputation"), style="hf")


def main(flawed: bool, steps: int) -> None:
    ids = torch.randint(0, 1024, (4 * steps, 64))
    data = [{"input_ids": row, "labels": row} for row in ids]
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=1024,
            hidden_size=256,
            intermediate_size=768,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=4,
            use_cache=False,
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            folder,
            max_steps=steps,
            per_device_train_batch_size=4,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            optim="adamw_torch_fused",
            gradient_checkpointing=flawed,
        )
        Trainer(model=model, args=options, train_dataset=data).train()


if __name__ == "__main__":
    main(*arguments())
