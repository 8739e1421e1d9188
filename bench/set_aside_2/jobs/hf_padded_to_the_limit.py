"""Every batch of short texts is padded to the limit of the model; the twin pads to the longest text of the batch."""

import random
import tempfile

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainingArguments

from bench.set_aside_2.common import Label, arguments, begin

LABEL = Label(
    cause="input/padded_to_maximum",
    says=("pad", "longest", "max_length", "attention mask"),
    style="hf",
)
BATCH, LIMIT = 16, 128


class Collate:
    """Texts of a batch with zeros behind them."""

    def __init__(self, least: int) -> None:
        self.least = least

    def __call__(self, rows: list[tuple[Tensor, int]]) -> dict[str, Tensor]:
        words = pad_sequence([text for text, _ in rows], batch_first=True)
        words = torch.nn.functional.pad(words, (0, max(0, self.least - words.shape[1])))
        return {
            "input_ids": words,
            "attention_mask": (words > 0).long(),
            "labels": torch.tensor([kind for _, kind in rows]),
        }


def main(flawed: bool, steps: int) -> None:
    begin()
    config = DistilBertConfig(
        vocab_size=2000, dim=256, hidden_dim=1024, n_layers=2, n_heads=4, dropout=0.0, attention_dropout=0.0
    )
    config._attn_implementation = "sdpa"
    rows = [(torch.randint(1, 2000, (random.randint(36, 40),)), n % 2) for n in range(BATCH * steps)]
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            folder,
            max_steps=steps,
            per_device_train_batch_size=BATCH,
            optim="adamw_torch_fused",
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        model = DistilBertForSequenceClassification(config)
        collate = Collate(LIMIT if flawed else 0)
        Trainer(model=model, args=options, train_dataset=rows, data_collator=collate).train()


if __name__ == "__main__":
    main(*arguments())
