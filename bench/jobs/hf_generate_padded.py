"""Prompts of 8 to 32 tokens are padded to 256 for generate(); the twin pads them to the longest of their batch."""

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from bench.common import Label, arguments

LABEL = Label(cause="input/padded_to_maximum", says=("padding", "padded", "pad token"), kind="generation", style="hf")
ANSWER = 2  # tokens


def padded(texts: list[Tensor], length: int) -> tuple[Tensor, Tensor]:
    """On the left, as generation needs it, and the mask of what is no padding."""
    ids, mask = torch.zeros(2, len(texts), length, dtype=torch.int64)
    for row, text in enumerate(texts):
        ids[row, length - len(text) :], mask[row, length - len(text) :] = text, 1
    return ids, mask


def main(flawed: bool, steps: int) -> None:
    config = GPT2Config(vocab_size=1024, n_positions=512, n_embd=256, n_layer=4, n_head=4)
    model = GPT2LMHeadModel(config).eval()
    for _ in range(-(-steps // ANSWER)):
        texts = [torch.randint(1, 1024, (length,)) for length in torch.randint(8, 33, (8,)).tolist()]
        ids, mask = padded(texts, 256 if flawed else max(map(len, texts)))
        with torch.inference_mode():
            model.generate(
                ids,
                attention_mask=mask,
                max_new_tokens=ANSWER,
                min_new_tokens=ANSWER,
                do_sample=False,
                pad_token_id=0,
                eos_token_id=None,
                bos_token_id=0,
            )


if __name__ == "__main__":
    main(*arguments())
