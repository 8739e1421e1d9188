"""The trainer evaluates two hundred texts after every fourth step; the twin does so once, at the end."""

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from bench.set_aside_2.common import Label, arguments, begin

LABEL = Label(
    cause="host/frequent_evaluation",
    says=("evaluat", "validation", "eval_steps"),
    pattern="every 4 steps",
    style="hf",
)
LENGTH, BATCH = 48, 16


def rows(count: int) -> list[dict[str, torch.Tensor]]:
    """Random texts of one length and their kinds."""
    return [{"input_ids": torch.randint(1, 2000, (LENGTH,)), "labels": torch.tensor(n % 2)} for n in range(count)]


def main(flawed: bool, steps: int) -> None:
    begin()
    config = BertConfig(
        vocab_size=2000,
        hidden_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=1024,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    config._attn_implementation = "sdpa"
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            folder,
            max_steps=steps,
            per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=64,
            eval_strategy="steps",
            eval_steps=4 if flawed else steps,
            optim="adamw_torch_fused",
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        Trainer(
            model=BertForSequenceClassification(config),
            args=options,
            train_dataset=rows(BATCH * steps),
            eval_dataset=rows(192),
        ).train()


if __name__ == "__main__":
    main(*arguments())
