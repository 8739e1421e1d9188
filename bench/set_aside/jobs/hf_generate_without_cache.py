"""generate() is called with use_cache=False, so that each token runs the whole text; the twin keeps the cache."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from bench.label import Label
from bench.set_aside.common import arguments, begin, tokens

LABEL = Label(cause="serving/no_kv_cache", says=("KV", "cache", "prefix", "use_cache"), kind="generation", style="hf")
NEW = 4  # tokens per request; a step is a request


@torch.inference_mode()
def main(flawed: bool, steps: int) -> None:
    begin()
    model = GPT2LMHeadModel(GPT2Config(vocab_size=1000, n_positions=256, n_embd=128, n_layer=3, n_head=4)).eval()
    prompts = [tokens(4, 48) for _ in range(4)]
    for step in range(steps):
        text = prompts[step % 4]
        model.generate(
            text,
            attention_mask=torch.ones_like(text),
            max_new_tokens=NEW,
            min_new_tokens=NEW,
            do_sample=False,
            use_cache=not flawed,
            pad_token_id=0,
        )


if __name__ == "__main__":
    main(*arguments())
