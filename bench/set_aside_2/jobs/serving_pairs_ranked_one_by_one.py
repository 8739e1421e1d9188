"""A ranker scores the pairs of each request one after another; the twin scores them in one batch."""

import torch
from transformers import BertConfig, BertForSequenceClassification

from bench.set_aside_2.common import Label, arguments, begin

LABEL = Label(
    cause="serving/batch_of_one",
    says=("batch", "one at a time", "one by one", "requests"),
    kind="inference",
    style="hf",
)
PAIRS, LENGTH = 24, 16


@torch.inference_mode()
def main(flawed: bool, steps: int) -> None:
    begin()
    config = BertConfig(
        vocab_size=3000,
        hidden_size=384,
        num_hidden_layers=3,
        num_attention_heads=6,
        intermediate_size=1536,
        num_labels=1,
        attn_implementation="sdpa",
    )
    model = BertForSequenceClassification(config).eval()
    for _ in range(steps):
        pairs = torch.randint(1, 3000, (PAIRS, LENGTH))
        for part in pairs.split(1 if flawed else PAIRS):
            model(input_ids=part)


if __name__ == "__main__":
    main(*arguments())
