"""The rungs of the memory ladder: what each changes of the job, and how a plan is told of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Of the model, and of what a step and rank trains on."""

    layers: int
    width: int
    heads: int
    words: int
    sequence: int  # tokens
    batch: int  # sequences
    positions: int = 1024


SIZES = {
    "first": Sizes(layers=6, width=384, heads=6, words=8192, sequence=256, batch=8),
    # Never looked at while the formulas of plans were changed.
    "other": Sizes(layers=4, width=256, heads=4, words=16384, sequence=128, batch=16),
}


@dataclass(frozen=True, kw_only=True)
class Rung:
    """A way to train the same model. Rungs are cumulative: each changes one thing of the one before."""

    name: str
    micro_batches: int = 1  # that a step and rank accumulates gradients of
    clears: bool = False  # gradients, before the forward pass; else they are set to zero and never freed
    recomputes: bool = False
    fused_optimizer: bool = False  # else it works on all parameters at once
    fused: bool = False  # attention and GELU in one kernel each, and no dropout
    autocast: bool = False  # bf16
    chunks: int = 1  # of the loss
    ranks: int = 1  # that FSDP shards over


PLAIN = Rung(name="plain")
CLEARED = replace(PLAIN, name="cleared", clears=True)
FUSED = replace(CLEARED, name="fused-kernels", fused=True)
AUTOCAST = replace(FUSED, name="autocast", autocast=True)
ACCUMULATION = replace(AUTOCAST, name="accumulation", micro_batches=2)
RECOMPUTATION = replace(ACCUMULATION, name="recomputation", recomputes=True)
CHUNKED = replace(RECOMPUTATION, name="chunked-loss", chunks=8)
OPTIMIZER = replace(CHUNKED, name="fused-optimizer", fused_optimizer=True)
SHARDED = replace(OPTIMIZER, name="fsdp", ranks=2)
LADDER = (PLAIN, CLEARED, FUSED, AUTOCAST, ACCUMULATION, RECOMPUTATION, CHUNKED, OPTIMIZER, SHARDED)
RUNGS = {rung.name: rung for rung in LADDER}

ON_A_HOST = {"slack": 0, "context_bytes": 0, "communicator_bytes": 0}
"""No caching allocator, no CUDA context, no NCCL."""


def model_config(sizes: Sizes) -> dict[str, Any]:
    """As Hugging Face writes it."""
    return {
        "model_type": "gpt2", "n_layer": sizes.layers, "n_embd": sizes.width, "n_head": sizes.heads,
        "vocab_size": sizes.words, "n_positions": sizes.positions,
    }  # fmt: skip


def plan_arguments(rung: Rung, sizes: Sizes) -> dict[str, Any]:
    """What `redline.plan_training` is told of a rung, beside the model."""
    return {
        "machine": "A100-SXM4-80GB",  # any: nothing of it is in the amounts that are compared
        "gpus": rung.ranks,
        "sequence": sizes.sequence,
        "batch": sizes.batch * rung.ranks,
        "precision": "bf16" if rung.autocast else "fp32",
        "layout": {
            "dp": rung.ranks,
            "zero": 3 if rung.ranks > 1 else 0,
            "micro_batch": sizes.batch // rung.micro_batches,
            "recompute": "full" if rung.recomputes else "none",
            "flash": int(rung.fused),
        },
        "footprint": footprint_of(rung),
    }


def footprint_of(rung: Rung) -> Mapping[str, float]:
    """What the job's own code keeps, as it is read in the code: nothing is fitted to what was measured."""
    foot: dict[str, float] = {**ON_A_HOST, "cleared_gradients": int(rung.clears)}
    foot["step_bytes"] = 0 if rung.fused_optimizer else 4  # a root of every second moment
    if not rung.fused:
        foot |= {"dropout": 1, "mask_bytes": 4, "extra_ffn": 3}  # CPUs keep masks in the format of activations
    if rung.autocast:
        foot |= {"weight_bytes": 4, "gradient_bytes": 4, "master_bytes": 0, "gather_bytes": 4}
        foot |= {"residual_bytes": 4, "cast_bytes": 2}
    return foot | {"logit_bytes": _logit_bytes(rung)}


def _logit_bytes(rung: Rung) -> float:
    """Logarithmic softmax, its gradient and that of the logits, in 32 bits; and the logits, while the loop has them."""
    if rung.chunks > 1:
        return 12 / rung.chunks
    return 12 + (2 if rung.autocast else 4)
