"""`generate` of Hugging Face transformers, with a tiny GPT-2 of random weights.

A step is one call of the model, which yields one token; how often `generate` was called is printed too. With
`--cache compiled`, `generate` compiles the model by itself, as it does on a GPU where the cache is static.
"""

import argparse
from typing import Any

import torch
from transformers import CompileConfig, GPT2Config, GPT2LMHeadModel

TOKENS = 16


def cache_options(kind: str) -> dict[str, Any]:
    if kind == "dynamic":
        return {}
    if kind == "static":
        return {"cache_implementation": "static"}
    compiling: Any = CompileConfig(backend="eager", mode=None)
    compiling._compile_all_devices = True  # as on a GPU
    return {"cache_implementation": "static", "compile_config": compiling}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--cache", choices=("dynamic", "static", "compiled"), default="dynamic")
    options = parser.parse_args()
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=256, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=None, eos_token_id=None
    )
    model = GPT2LMHeadModel(config).eval()
    tokens = 0
    for _ in range(options.calls):
        prompt = torch.randint(256, (2, 8))
        text = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=TOKENS,
            do_sample=False,
            pad_token_id=0,
            **cache_options(options.cache),
        )
        tokens += text.shape[1] - prompt.shape[1]
    print(f"generate was called {options.calls} times")
    print(f"done: {tokens} steps")


if __name__ == "__main__":
    main()
