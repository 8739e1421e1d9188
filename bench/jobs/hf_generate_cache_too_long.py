"""generate() has a static cache of 4,096 positions for 64 tokens; the twin's cache has as many as it needs."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, StaticCache

from bench.common import Label, arguments, tokens

LABEL = Label(
    cause="serving/cache_too_long",
    says=("static cache", "cache", "positions"),
    kind="generation",
    style="hf",
)
PROMPT = 16


def main(flawed: bool, steps: int) -> None:
    config = GPT2Config(vocab_size=1024, n_positions=4096, n_embd=512, n_layer=4, n_head=8)
    model = GPT2LMHeadModel(config).eval()
    prompt = tokens(4, PROMPT)
    with torch.inference_mode():
        model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            past_key_values=StaticCache(config, max_cache_len=4096 if flawed else PROMPT + steps),
            max_new_tokens=steps,
            min_new_tokens=steps,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=None,
            bos_token_id=0,
        )


if __name__ == "__main__":
    main(*arguments())
