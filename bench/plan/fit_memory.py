"""Fit the constants of `memory.json` to the published peaks of memory and failures with even ids.

    python -m bench.plan.fit_memory        # needs scipy

Every constant belongs to a software stack. Formats and everything that a stack's source code tells (how many bytes its
optimizer holds, how it cuts a pipeline) are written down here, not fitted. The fit is deterministic: least squares of
the logarithm of predicted over measured, with a loss that grows linearly beyond 5 %, from the book's values.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares, minimize
from scipy.special import ndtr

from bench.plan.memory import (
    Peaks,
    as_measured,
    fullest_use,
    measured_peaks,
    nanotron_outcomes,
    predicted_use,
)
from bench.plan.rows import training_runs
from bench.plan.training import Runs, expressed_runs
from redline.plan.train.memory.footprint import Constants, footprint_of
from redline.plan.train.memory.use import memory_use, runnable

TARGET = Path(__file__).parents[2] / "src" / "redline" / "plan" / "train" / "memory" / "memory.json"
ABOUT = (
    "Bytes that number formats and software stacks cost. Formats are arithmetic. Of stacks, `known` is what their code "
    "says, `fitted` what bench/plan/fit_memory.py fitted to rows with even ids of training_runs.csv.gz, and `rows` how "
    "many these are. Between the multiples `low` and `high` of a predicted peak lie eight of ten measured ones of the "
    "same rows. `measured` has the same of all stacks together, and what was fitted to nanotron's layouts with even "
    "ids that ran or failed, of those that can run at all: the multiple of a device's published memory at which half "
    "of them run out, and the standard deviation of its logarithm. `unmeasured` has all of these for stacks that "
    "nothing was fitted to: from measured stacks, each with the same weight, predicted by what is `known` alone."
)
# Of what is published as its memory, a device has this much: 79.1 GiB of 80 GB, 139.8 GiB of 141 GB.
CAPACITY = 1.062
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
    "bigscience": {"master_bytes": 8, "dropout": 1, "fused_gate": 0, "logit_bytes": 12},
    # FSDP2 keeps 32-bit weights, gathers them in 16 bits, reduces gradients in 32 bits, and frees them after the step.
    # Selective recomputation goes by operators (torchtitan/distributed/activation_checkpoint.py); its recipes compile.
    "torchtitan": {
        "weight_bytes": 4, "gradient_bytes": 4, "master_bytes": 0, "resident_weights": 1, "by_operator": 1,
        "cleared_gradients": 1, "compiled": 1,
    },
    "litgpt": {"fused_gate": 0, "fused_norm": 0},
    # Recipes of NeMo and Megatron-Bridge reduce gradients in 16 bits; Megatron-LM's own adds them up in 32. The
    # vocabulary-parallel loss (megatron/core/tensor_parallel/cross_entropy.py) has 16-bit logits, 32-bit ones that
    # become the softmax in place, and a 16-bit gradient. Before Megatron-Core the softmax was another 32-bit copy.
    "megatron-bridge": {"logit_bytes": 8},
    "megatron-core": {"logit_bytes": 8},
    "megatron-lm": {"gradient_bytes": 4, "dropout": 1, "logit_bytes": 12},
    "megatron-deepspeed": {"logit_bytes": 12},
    # FSDP in llm-foundry: 32-bit shards, and the loss of flash-attn, one kernel (loss_fn: fused_crossentropy).
    "composer": {
        "weight_bytes": 4, "gradient_bytes": 4, "master_bytes": 0, "resident_weights": 1, "cleared_gradients": 1,
        "logit_bytes": 4,
    },
    # The loss of flash-attn in place, on logits that the mixed-precision wrapper makes 32-bit ones.
    "internevo": {"logit_bytes": 6},
    # FSDP of PyTorch with compiled layers.
    "fsdp": {
        "weight_bytes": 4, "gradient_bytes": 4, "master_bytes": 0, "resident_weights": 1, "cleared_gradients": 1,
        "compiled": 1,
    },
    # XLA compiles everything, the loss included.
    "jax": {"weight_bytes": 4, "gradient_bytes": 4, "master_bytes": 0, "compiled": 1, "logit_bytes": 8},
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
    "torchtitan": {"logit_bytes": (12.0, 4.0, 16.0)},
    "litgpt": {"extra_hidden": (2.0, 0.0, 30.0)},
}  # fmt: skip


def main() -> None:
    """Fit to the rows with even ids, and write the file."""
    peaks, tried = measured_peaks(), nanotron_outcomes()
    constants = fitted(peaks.where(~peaks.held_out), tried.where(~tried.held_out), expressed_runs())
    TARGET.write_text(json.dumps({"about": ABOUT, **constants}, indent=1) + "\n", "utf-8")


def fitted(peaks: Peaks, tried: Peaks, ran: Runs) -> Constants:
    """All constants, from measured peaks, from layouts that ran or failed, and from layouts that ran. Whoever scores
    them on rows that were left out gives the other rows.
    """
    stacks: dict[str, Any] = {}
    for name, known in KNOWN.items():
        own = peaks.where(peaks.stacks == name)
        found = fit_stack(own, known, FITTED.get(name, {}))
        stacks[name] = {"known": known, "fitted": found, "rows": len(own)}
    written = {"formats": FORMATS, "stacks": stacks}
    told = np.log(peaks.measured_bytes / predicted(peaks, written))
    for name in sorted(set(peaks.stacks.tolist())):
        stacks[name] |= spread(told[peaks.stacks == name])
    base = fit_curve(tried, written)
    unmeasured = by_code(peaks, written, base)
    for name in KNOWN:
        if not stacks[name]["fitted"]:
            stacks[name] |= bounded(ran.where(_stated(ran, name)), written, name, unmeasured)
    return {**written, "measured": {**spread(told), **base}, "unmeasured": _rounded(unmeasured)}


def fit_stack(rows: Peaks, known: dict[str, float], bounds: dict[str, tuple[float, float, float]]) -> dict[str, float]:
    """The constants, rounded to three digits so that a small change of a solver does not change the file."""
    if not bounds or not len(rows):
        return {}
    start, low, high = (np.array(each) for each in zip(*bounds.values(), strict=True))
    scale = np.where(np.abs(start) > 0, np.abs(start), 1.0)
    stack = str(rows.stacks[0])

    def errors(point: np.ndarray) -> np.ndarray:
        given = dict(zip(bounds, (point * scale).tolist(), strict=True))
        constants = {"formats": FORMATS, "stacks": {stack: {"known": known, "fitted": given}}}
        return np.log(predicted(rows, constants) / rows.measured_bytes)

    found = least_squares(errors, start / scale, bounds=(low / scale, high / scale), loss="soft_l1", f_scale=0.05)
    return {name: float(f"{value:.3g}") for name, value in zip(bounds, found.x * scale, strict=True)}


def predicted(rows: Peaks, constants: Constants, *, by_fit: bool = True) -> np.ndarray:
    """What the measurement should have seen, with these constants."""
    return as_measured(predicted_use(rows, constants, fitted=by_fit), rows.kinds)


def spread(logs: np.ndarray) -> dict[str, float]:
    """Measured over predicted: the multiples between which eight of ten lie. Few rows say nothing."""
    if len(logs) < 10:
        return {}
    low, high = np.exp(np.quantile(logs, (0.1, 0.9)))
    return {"low": round(float(low), 3), "high": round(float(high), 3)}


def by_code(peaks: Peaks, constants: Constants, base: dict[str, float]) -> dict[str, float]:
    """How far measured peaks lie from what the source code of their stack tells, and what that makes of the curve:
    each stack has the same weight. `bias` and `between` are how far stacks lie off, `within` how far runs of a stack
    lie apart.
    """
    logs = np.log(peaks.measured_bytes / predicted(peaks, constants, by_fit=False))
    names, runs = np.unique(peaks.stacks, return_counts=True)
    biases = np.array([np.median(logs[peaks.stacks == name]) for name in names])
    apart = np.array([_half_width(logs[peaks.stacks == name]) for name in names])
    weights = np.concatenate([np.full(count, 1 / count) for count in runs])
    ordered = np.concatenate([logs[peaks.stacks == name] for name in names])
    order = np.argsort(ordered)
    low, high = np.exp(np.interp((0.1, 0.9), np.cumsum(weights[order]) / weights.sum(), ordered[order]))
    bias, between, within = biases.mean(), biases.std(ddof=1), np.median(apart)
    deviation = np.sqrt(base["deviation"] ** 2 + between**2 + within**2)
    return {
        "low": low, "high": high, "middle": base["middle"] / np.exp(bias), "deviation": deviation,
        "bias": bias, "between": between, "within": within, "deviation_alone": base["deviation"],
    }  # fmt: skip


def _half_width(logs: np.ndarray) -> float:
    """Half of what holds two thirds of them: a standard deviation that a few odd rows do not move."""
    low, high = np.quantile(logs, (1 / 6, 5 / 6))
    return float(high - low) / 2


def bounded(ran: Runs, constants: Constants, name: str, unmeasured: dict[str, float]) -> dict[str, float]:
    """What layouts that ran say of a stack of which no peak was measured: its code cannot tell much too little, nor,
    where runs fill a device by design, much too much. The belief in every possible bias of the code, weighed by how
    likely it lets all of these run.
    """
    if not len(ran):
        return {}
    use = np.empty(len(ran))
    for form in np.unique(ran.formats):
        mask = ran.formats == form
        some = ran.where(mask)
        foot = footprint_of(constants, name, str(form))
        use[mask] = memory_use(some.model, some.batch, some.layout, foot).peak_bytes
    # One error is common to all runs of a model, so its fullest one speaks for them.
    asked = np.log(use / ran.bare.device_bytes)
    ratios = np.array([asked[ran.names == model].max() for model in np.unique(ran.names)])
    base = np.log(unmeasured["middle"]) + unmeasured["bias"]
    usual = np.hypot(unmeasured["within"], unmeasured["deviation_alone"])
    # Nobody is believed to fit more into a device than it has.
    biases = np.linspace(base - np.log(CAPACITY), 0.6, 121)[:, None]
    apart = np.geomspace(unmeasured["deviation_alone"] / 2, 2 * usual, 41)[None, :]
    chances = ndtr((ratios[:, None, None] + biases - base) / apart)
    belief = -0.5 * ((biases - unmeasured["bias"]) / unmeasured["between"]) ** 2
    belief = belief - 0.5 * (np.log(apart / usual) / np.log(1.5)) ** 2
    belief = np.exp(belief + np.sum(np.log1p(-np.minimum(chances, 1 - 1e-6)), axis=0))
    belief /= belief.sum()
    bias = float(np.sum(belief * biases))
    variance = float(np.sum(belief * (apart**2 + (biases - bias) ** 2)))
    return {
        "ran": len(ran),
        "middle": round(float(np.exp(base - bias)), 3),
        "deviation": round(float(np.sqrt(variance)), 3),
    }


def _stated(ran: Runs, name: str) -> np.ndarray:
    """Runs of a stack whose source says what it recomputes, in words that mean one thing."""
    rows = training_runs()
    stated = dict(zip(rows.columns["id"], rows.columns["recompute"], strict=True))
    says = np.array([stated[str(row)] in {"none", "full", "selective-op"} for row in ran.ids], np.bool_)
    return np.asarray((ran.stacks == name) & says, np.bool_)


def fit_curve(tried: Peaks, constants: Constants) -> dict[str, float]:
    """A normal curve over the logarithm of what a job asks for over what a device has: at which multiple half of all
    layouts fail, and how steeply. Layouts that cannot run say nothing about memory; a floor of failures for other
    reasons, and as many rows as are wrong in the source, keep odd ones from flattening the curve.
    """
    foot = footprint_of(constants, "nanotron", "bf16")
    rows = tried.where(runnable(tried.model, tried.batch, tried.layout, foot))
    asked = np.log(fullest_use(rows, constants).peak_bytes / rows.device_bytes)

    def surprise(point: np.ndarray) -> float:
        middle, deviation = point[0], abs(point[1]) + 1e-3
        floor, odd = np.clip(point[2:], 1e-3, 0.2)
        fails = floor + (1 - floor - odd) * ndtr((asked - middle) / deviation)
        return float(-np.mean(np.where(rows.ran, np.log(1 - fails), np.log(fails))))

    options = {"xatol": 1e-5, "fatol": 1e-9, "maxiter": 4000}
    found = minimize(surprise, np.array([-0.1, 0.1, 0.04, 0.01]), method="Nelder-Mead", options=options)
    return {"middle": round(float(np.exp(found.x[0])), 3), "deviation": round(abs(float(found.x[1])), 3)}


def _rounded(numbers: dict[str, float]) -> dict[str, float]:
    return {name: round(float(value), 3) for name, value in numbers.items()}


if __name__ == "__main__":
    main()
