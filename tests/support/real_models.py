"""Builds models with transformers from configs on stdin, and prints what torch counts in them as JSON.

Runs in the environment of tests/e2e/frameworks.txt. "build" models are only built, on the meta device; "run" models
make a forward and a backward pass on small tensors, with attention in single operators.
"""

import json
import sys
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM


def build(values: dict[str, Any]) -> Any:
    family = "deepseek_v3" if values["model_type"] == "kimi_k2" else values["model_type"]
    config = AutoConfig.for_model(family, **{k: v for k, v in values.items() if k != "model_type"})
    kind = AutoModelForMaskedLM if family == "bert" else AutoModelForCausalLM
    return kind.from_config(config, attn_implementation="eager", experts_implementation="eager")


def parameters(values: dict[str, Any]) -> int:
    with torch.device("meta"):
        model = build(values)
    model.tie_weights()
    return sum(each.numel() for each in model.parameters())


def flops(values: dict[str, Any], sequences: int, sequence: int) -> dict[str, int]:
    """Without the angles of rotated positions, which torch happens to compute with a matmul."""
    model = build(values)
    tokens = torch.zeros(sequences, sequence, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        logits = model(tokens, use_cache=False).logits
        forward = matmul_flops(counter)
        logits.sum().backward()
    return {"forward": forward, "backward": matmul_flops(counter) - forward}


def matmul_flops(counter: FlopCounterMode) -> int:
    by_module = counter.get_flop_counts()
    angles = sum(sum(by_module[name].values()) for name in by_module if name.endswith("rotary_emb"))
    return counter.get_total_flops() - angles


asked = json.load(sys.stdin)
built = {name: parameters(values) for name, values in (asked["build"] | asked["run"]).items()}
ran = {name: flops(values, asked["sequences"], asked["sequence"]) for name, values in asked["run"].items()}
json.dump({"parameters": built, "flops": ran}, sys.stdout)
