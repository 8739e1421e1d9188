"""generate(use_cache=False) computes the whole text for each token; the twin generates with a cache."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from bench.common import Label, arguments, tokens

LABEL = Label(
    cause="serving/no_kv_cache",
    says=("use_cache", "KV cache", "cache of keys", "past_key"),
    kind="generation",
    style="hf",
)


def main(flawed: bool, steps: int) -> None:
    config = GPT2Config(vocab_size=1024, n_positions=128, n_embd=768, n_layer=6, n_head=12)
    model = GPT2LMHeadModel(config).eval()
    prompt = tokens(1, 16)
    with torch.inference_mode():
        model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=steps,
            min_new_tokens=steps,
            do_sample=False,
            use_cache=not flawed,
            pad_token_id=0,
            eos_token_id=None,
            bos_token_id=0,
        )


if __name__ == "__main__":
    main(*arguments())
