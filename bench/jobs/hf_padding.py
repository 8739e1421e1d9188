"""HF Trainer with a collator that pads all to 128 tokens; the twin's collator pads to the longest of the batch."""

import tempfile
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from bench.common import Label, arguments

Collate = Callable[[list[dict[str, Tensor]]], dict[str, Tensor]]

LABEL = Label(cause="input/padded_to_maximum", says=("padding", "padded", "pad token"), style="hf")


def collator(width: int | None) -> Collate:
    def collate(rows: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        texts = [row["input_ids"] for row in rows]
        ids = pad_sequence(texts, batch_first=True)
        labels = pad_sequence(texts, batch_first=True, padding_value=-100)
        if width is not None:
            ids = torch.nn.functional.pad(ids, (0, width - ids.shape[1]))
            labels = torch.nn.functional.pad(labels, (0, width - labels.shape[1]), value=-100)
        return {"input_ids": ids, "attention_mask": (labels != -100).long(), "labels": labels}

    return collate


def main(flawed: bool, steps: int) -> None:
    lengths = torch.randint(20, 61, (8 * steps,)).tolist()
    data = [{"input_ids": torch.randint(1, 1024, (length,))} for length in lengths]
    config = GPT2Config(vocab_size=1024, n_positions=128, n_embd=192, n_layer=3, n_head=4, attn_pdrop=0.0)
    model = GPT2LMHeadModel(config)  # on a CPU, attention with dropout is not fused
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            folder,
            max_steps=steps,
            per_device_train_batch_size=8,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            optim="adamw_torch_fused",
        )
        Trainer(model=model, args=options, train_dataset=data, data_collator=collator(128 if flawed else None)).train()


if __name__ == "__main__":
    main(*arguments())
