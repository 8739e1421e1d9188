"""Fit the constants of `memory.json` to the published peaks of memory and failures with even ids.

    python -m scripts.fit_memory        # needs scipy

Every constant belongs to a software stack. Formats and everything that a stack's source code tells (how many bytes its
optimizer holds, how it cuts a pipeline) are written down here, not fitted. The fit is deterministic: least squares of
the logarithm of predicted over measured, with a loss that grows linearly beyond 5 %, from the book's values.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares, minimize
from scipy.special import ndtr

from redline.planner.train.memory.footprint import Footprint
from redline.planner.train.memory.runnable import runnable
from redline.planner.train.memory.use import first_stage_memory, memory_use
from redline.planner.train.step_cost import MemoryUse
from redline.planner.train.training_choices import Recompute
from redline.planner.validation.memory import Peaks, as_measured, measured_peaks, nanotron_outcomes

TARGET = Path(__file__).parents[1] / "src" / "redline" / "planner" / "train" / "memory" / "memory.json"
ABOUT = (
    "Bytes that number formats and software stacks cost. Formats are arithmetic. Of stacks, `known` is what their code "
    "says, `fitted` what scripts/fit_memory.py fitted to rows with even ids of training_runs.csv.gz, and `rows` how "
    "many these are. Between the multiples `low` and `high` of a predicted peak lie eight of ten measured ones of the "
    "same rows. `measured` has the same of all stacks together, and what was fitted to nanotron's layouts with even "
    "ids that ran or failed, of those that can run at all: the multiple of a device's published memory at which half "
    "of them run out, and the standard deviation of its logarithm. `unmeasured` has all of these for stacks that "
    "nothing was fitted to: from measured stacks, each with the same weight, predicted by what is `known` alone."
)
FORMATS: dict[str, dict[str, float]] = {
    # 2 + 2 + 4 + 8 bytes per parameter: weights, gradients, fp32 master copy, two fp32 moments. 8- and 4-bit matmuls
    # read copies that are made for a moment; what is kept stays in 16 bits.
    "bf16": {},
    "fp16": {},
    "fp8": {},
    "fp4": {},
    # 4 + 4 + 8. Logits, their logarithmic softmax and its gradient: 12.
    "fp32": {
        "weight_bytes": 4, "gradient_bytes": 4, "master_bytes": 0, "gather_bytes": 4, "frozen_bytes": 4,
        "activation_bytes": 4, "logit_bytes": 12,
    },
    "tf32": {
        "weight_bytes": 4, "gradient_bytes": 4, "master_bytes": 0, "gather_bytes": 4, "frozen_bytes": 4,
        "activation_bytes": 4, "logit_bytes": 12,
    },
    # Everything in 16 bits: 2 + 2 + 4.
    "bf16-true": {"master_bytes": 0, "moment_bytes": 4},
    # 4 bits, and a 32-bit scale per 64 numbers, or an 8-bit one with a 32-bit one per 256 of these.
    "nf4": {"master_bytes": 0, "moment_bytes": 4, "frozen_bytes": 0.5625},
    "nf4-dq": {"master_bytes": 0, "moment_bytes": 4, "frozen_bytes": 0.516},
}  # fmt: skip
KNOWN: dict[str, dict[str, float]] = {
    # Gradients are added up in 32 bits beside the 16-bit ones; norms are single operators; stages are cut by FLOPs; the
    # schedule asserts that there are at least pp - 1 micro-batches.
    "nanotron": {
        "gradient_bytes": 4, "spare_gradient_bytes": 2, "fused_norm": 0, "head_weighs": 1, "least_micro_batches": 1,
    },
    # The 16-bit optimizer of DeepSpeed holds 32-bit gradients of its part beside the master copy.
    "bigscience": {"master_bytes": 8, "dropout": 1, "fused_gate": 0},
    # FSDP2 keeps 32-bit weights, gathers them in 16 bits, and reduces gradients in 32 bits.
    "torchtitan": {"weight_bytes": 4, "gradient_bytes": 4, "master_bytes": 0},
    "litgpt": {"fused_gate": 0, "fused_norm": 0},
    # Recipes of NeMo and Megatron-Bridge reduce gradients in 16 bits; Megatron-LM's own adds them up in 32.
    "megatron-bridge": {},
    "megatron-core": {},
    "megatron-lm": {"gradient_bytes": 4, "dropout": 1},
    # Plain torch, whose AdamW takes the root of all second moments at once (foreach): one number per parameter.
    "pytorch": {"step_bytes": 4, "fused_gate": 0},
}  # fmt: skip
# What is fitted, with where it starts and its bounds.
FITTED: dict[str, dict[str, tuple[float, float, float]]] = {
    "nanotron": {
        "extra_hidden": (2.0, -4.0, 12.0), "split_hidden": (1.0, 0.0, 12.0), "extra_ffn": (0.0, -2.0, 2.0),
        "passing_hidden": (2.0, 0.0, 10.0), "passing_alone": (20.0, 0.0, 60.0), "logit_bytes": (8.0, 4.0, 16.0),
        "last_logit_bytes": (4.0, 0.0, 6.0), "workspace_bytes": (0.2e9, 0.0, 1e9),
    },
    "bigscience": {"slack": (0.1, 0.0, 0.4), "context_bytes": (2e9, 0.5e9, 6e9)},
    "torchtitan": {"selective": (0.45, 0.2, 1.0), "logit_bytes": (12.0, 4.0, 16.0)},
    "litgpt": {"extra_hidden": (2.0, 0.0, 30.0)},
}  # fmt: skip


def main() -> None:
    """Fit every stack that has rows, then how sure a verdict on fitting can be, and write the file."""
    peaks = measured_peaks()
    rows = peaks.where(~peaks.held_out)
    stacks: dict[str, Any] = {}
    every: list[np.ndarray] = []
    for name, known in KNOWN.items():
        own = rows.where(rows.stacks == name)
        fitted = fit_stack(own, known, FITTED.get(name, {}))
        ratios = own.measured_bytes / predicted(own, {**known, **fitted}) if len(own) else np.empty(0)
        stacks[name] = {"known": known, "fitted": fitted, "rows": len(own), **spread(ratios)}
        every.append(ratios)
    curve = {**spread(np.concatenate(every)), **fit_curve({**KNOWN["nanotron"], **stacks["nanotron"]["fitted"]})}
    written = {
        "about": ABOUT,
        "formats": FORMATS,
        "stacks": stacks,
        "measured": curve,
        "unmeasured": unmeasured(rows, curve),
    }
    TARGET.write_text(json.dumps(written, indent=1) + "\n", "utf-8")


def fit_stack(rows: Peaks, known: dict[str, float], bounds: dict[str, tuple[float, float, float]]) -> dict[str, float]:
    """The constants, rounded to three digits so that a small change of a solver does not change the file."""
    if not bounds or not len(rows):
        return {}
    start, low, high = (np.array(each) for each in zip(*bounds.values(), strict=True))
    scale = np.where(np.abs(start) > 0, np.abs(start), 1.0)

    def errors(point: np.ndarray) -> np.ndarray:
        given = {**known, **dict(zip(bounds, (point * scale).tolist(), strict=True))}
        return np.log(predicted(rows, given) / rows.measured_bytes)

    found = least_squares(errors, start / scale, bounds=(low / scale, high / scale), loss="soft_l1", f_scale=0.05)
    return {name: float(f"{value:.3g}") for name, value in zip(bounds, found.x * scale, strict=True)}


def predicted(rows: Peaks, given: dict[str, float]) -> np.ndarray:
    """What the measurement should have seen, with these constants."""
    use = np.empty(len(rows))
    for form in np.unique(rows.formats):
        mask = rows.formats == form
        some = rows.where(mask)
        foot = replace(Footprint(), **{**FORMATS[str(form)], **given})
        use[mask] = as_measured(_use(some, foot), some.kinds)
    return use


def _use(rows: Peaks, foot: Footprint) -> MemoryUse:
    on_first = rows.stacks[0] == "nanotron"
    return (first_stage_memory if on_first else memory_use)(rows.model, rows.batch, rows.layout, foot)


def spread(ratios: np.ndarray) -> dict[str, float]:
    """Measured over predicted: the multiples between which eight of ten lie. Few rows say nothing."""
    if len(ratios) < 10:
        return {}
    low, high = np.quantile(ratios, (0.1, 0.9))
    return {"low": round(float(low), 3), "high": round(float(high), 3)}


def unmeasured(rows: Peaks, curve: dict[str, float]) -> dict[str, float]:
    """How far measured peaks lie from what the source code of their stack tells, and what that makes of the curve.

    Rows that recompute operators of their own choice are left out: no footprint by the book knows these.
    """
    some = rows.where(np.asarray(rows.layout.recompute) != Recompute.SELECTIVE)
    names, runs = np.unique(some.stacks, return_counts=True)
    told = np.concatenate([predicted(some.where(some.stacks == name), KNOWN[str(name)]) for name in names])
    logs = np.log(np.concatenate([some.measured_bytes[some.stacks == name] for name in names]) / told)
    weights = np.concatenate([np.full(count, 1 / count) for count in runs])
    middle = np.average(logs, weights=weights)
    deviation = np.hypot(np.sqrt(np.average((logs - middle) ** 2, weights=weights)), curve["deviation"])
    order = np.argsort(logs)
    low, high = np.exp(np.interp((0.1, 0.9), np.cumsum(weights[order]) / weights.sum(), logs[order]))
    found = {"low": low, "high": high, "middle": curve["middle"] / np.exp(middle), "deviation": deviation}
    return {name: round(float(value), 3) for name, value in found.items()}


def fit_curve(given: dict[str, float]) -> dict[str, float]:
    """A normal curve over the logarithm of what a job asks for over what a device has: at which multiple half of all
    layouts fail, and how steeply. Layouts that cannot run say nothing about memory; a floor of failures for other
    reasons keeps a few crashes of small jobs from flattening the curve.
    """
    tried = nanotron_outcomes()
    foot = replace(Footprint(), **given)
    rows = tried.where(~tried.held_out & runnable(tried.model, tried.batch, tried.layout, foot))
    use = memory_use(rows.model, rows.batch, rows.layout, foot)
    asked = np.log(use.peak_bytes / rows.device_bytes)

    def surprise(point: np.ndarray) -> float:
        middle, deviation, floor = point[0], abs(point[1]) + 1e-3, np.clip(point[2], 1e-3, 0.2)
        fails = floor + (1 - floor) * _normal((asked - middle) / deviation)
        return float(-np.mean(np.where(rows.ran, np.log(1 - fails + 1e-9), np.log(fails + 1e-9))))

    found = minimize(
        surprise, np.array([-0.1, 0.1, 0.04]), method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-9}
    )
    return {"middle": round(float(np.exp(found.x[0])), 3), "deviation": round(abs(float(found.x[1])), 3)}


def _normal(deviations: np.ndarray) -> np.ndarray:
    curve: np.ndarray = ndtr(deviations)
    return curve


if __name__ == "__main__":
    main()
