"""generate() gets a static cache of 2048 places for texts of some two hundred; the twin's is as long as its texts."""

from importlib import import_module
from typing import Any

import torch

from bench.set_aside_2.common import Label, arguments, begin

LABEL = Label(
    cause="memory/cache_far_too_long",
    says=("static cache", "max_cache_len", "StaticCache", "too long", "KV cache", "key-value", "attention"),
    kind="generation",
    style="hf",
)
transformers: Any = import_module("transformers")
PROMPT, BATCH, LONGEST = 128, 4, 2048


@torch.inference_mode()
def main(flawed: bool, steps: int) -> None:
    begin()
    config = transformers.LlamaConfig(
        vocab_size=8000,
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=8,
        max_position_embeddings=LONGEST,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    ids = torch.randint(1, 8000, (BATCH, PROMPT))
    cache = transformers.StaticCache(config=config, max_cache_len=LONGEST if flawed else PROMPT + steps)
    model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        past_key_values=cache,
        max_new_tokens=steps,
        do_sample=False,
        disable_compile=True,
    )


if __name__ == "__main__":
    main(*arguments())
