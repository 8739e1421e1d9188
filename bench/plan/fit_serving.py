"""Fit the constants of serving engines to the published measurements with even numbers; the odd ones are held out.

Run from the root of a checkout: `python -m bench.plan.fit_serving`. It writes serving_constants.json in src.
Constants are per engine and family of GPU. A family is fitted around the constants of its engine over all families: a
constant that its rows say nothing about stays there, and one of them alone cannot move it far.
"""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from bench.plan.serving import ServingRows, load_serving, rows_where
from bench.plan.serving_errors import SCORED, log_errors
from redline.plan.serve.forward_passes import ServeOutcome
from redline.plan.serve.plan import serve
from redline.plan.serve.setup import FILE, Constants, family_of

Column = NDArray[np.float64]
ABOUT = (
    "Constants of serving engines per family of GPU, fitted by bench/plan/fit_serving.py to the rows of "
    "inference_runs.csv.gz with even numbers and without speculative decoding. `gpus` are those that these rows were "
    "measured on."
)
# Where the fit starts, between which bounds it stays, and how far (as a factor e^width) a constant may easily move.
_KNOBS: dict[str, tuple[float, float, float, float]] = {
    "memory_share": (0.75, 0.4, 0.95, 0.15),
    "compute_share": (0.5, 0.1, 0.85, 0.25),
    "narrow_share": (0.8, 0.2, 1.0, 0.2),
    "attention_share": (0.5, 0.1, 0.9, 0.3),
    "expert_share": (0.6, 0.15, 1.0, 0.3),
    "unpack_bytes": (0.2, 0.02, 1.0, 0.3),
    "cache_share": (0.65, 0.2, 0.95, 0.3),
    "layer_s": (25e-6, 2e-6, 2e-4, 0.5),
    "expert_layer_s": (20e-6, 1e-6, 3e-4, 0.5),
    "quantised_layer_s": (10e-6, 1e-7, 5e-4, 1.0),
    "step_s": (1e-3, 1e-4, 2e-2, 0.6),
    "sequence_s": (10e-6, 1e-7, 3e-4, 0.7),
    "reduce_s": (14e-6, 4e-6, 6e-5, 0.3),
    "link_share": (0.5, 0.004, 0.9, 0.5),
    "prompt_layer_s": (3e-4, 1e-5, 3e-3, 0.5),
    "prompt_expert_layer_s": (4e-4, 1e-5, 5e-3, 0.5),
    "prompt_s": (4e-3, 1e-4, 8e-2, 0.8),
    "prompt_hidden": (0.4, 0.02, 0.95, 0.5),
    "request_s": (0.02, 1e-3, 0.2, 0.6),
}
# What an engine is known to do otherwise than most.
_GIVEN: dict[str, dict[str, float]] = {
    # One token at a time: messages so small that libraries send them by the way of little latency and little bandwidth.
    "gpt-fast": {"step_s": 1e-4, "sequence_s": 1e-7, "expert_share": 1.0, "link_share": 0.01, "reduce_s": 6e-6},
    "TensorRT-LLM": {
        "reserve": 0.08,
        "most": 4096,
        "prompt_layer_s": 2e-5,
        "prompt_expert_layer_s": 2e-5,
        "prompt_s": 5e-4,
    },
    "SGLang": {},
    "vLLM": {"most": 4096},
}
# How much a metric counts. First tokens are noisy: pages print means, which one slow start of many changes.
_WEIGHTS = {"tpot_s": 1.0, "ttft_s": 0.5, "latency_s": 1.0, "tokens_per_s": 1.0}
_TOLERANCE = 0.1
# How much a constant that wanders counts: what does well on even rows that are held out from each other.
_PRIORS = {"gpt-fast": 0.45, "SGLang": 0.8, "TensorRT-LLM": 0.45, "vLLM": 0.45}


def main() -> None:
    rows, _ = load_serving()
    even = rows_where(rows, (rows.held_out == 0) & (rows.speculative == 0))
    engines: dict[str, Any] = {}
    for engine in SCORED:
        mine = rows_where(even, np.array([each == engine for each in even.engine]))
        engines[engine] = fitted(mine, engine) | {"gpus": sorted(set(mine.gpu))}
    text = json.dumps({"about": ABOUT, "engines": engines}, indent=1)
    Path(str(FILE)).write_text(text + "\n", encoding="utf-8")


def fitted(rows: ServingRows, engine: str, wanted: frozenset[str] | None = None) -> dict[str, Any]:
    """Over all families first, then each family around that, or each of those that are wanted."""
    start = {name: _GIVEN[engine].get(name, knob[0]) for name, knob in _KNOBS.items()}
    overall = _constants_near(rows, engine, start)
    families = {}
    known = {family_of(gpu) for gpu in rows.gpu}
    for family in sorted(known if wanted is None else known & wanted):
        of = rows_where(rows, np.array([family_of(gpu) == family for gpu in rows.gpu]))
        families[family] = _constants_near(of, engine, overall)
    return {"all": overall, "families": families}


def _constants_near(rows: ServingRows, engine: str, around: dict[str, float]) -> dict[str, float]:
    """The constants that make the logarithms of predicted / measured small, large ones counting for less."""
    names = list(_KNOBS)
    start = np.log([around[name] for name in names])
    low, high = (np.log([_KNOBS[name][side] for name in names]) for side in (1, 2))
    width = np.array([_KNOBS[name][3] for name in names])

    def lost(logs: Column) -> Column:
        scaled = _weighed(rows, engine, serve_with(rows, _constants(engine, names, logs))) / _TOLERANCE
        robust = np.sign(scaled) * np.sqrt(2 * (np.sqrt(1 + scaled**2) - 1))
        return np.concatenate([robust, _PRIORS[engine] * (logs - start) / width])

    found = least_squares(lost, np.clip(start, low + 1e-6, high - 1e-6), bounds=(low, high))
    constants = _constants(engine, names, found.x)
    return {each.name: float(f"{getattr(constants, each.name):.4g}") for each in fields(Constants)}


def _weighed(rows: ServingRows, engine: str, outcome: ServeOutcome) -> Column:
    errors = log_errors(rows, outcome)
    # Of SGLang, tokens per second say the same as the time per token: they are scored, not fitted to.
    used = [name for name in SCORED[engine] if (engine, name) != ("SGLang", "tokens_per_s")]
    return np.concatenate([_WEIGHTS[name] * errors[name][np.isfinite(errors[name])] for name in used])


def serve_with(rows: ServingRows, constants: Constants) -> ServeOutcome:
    return serve(rows.setup(constants), rows.traffic)


def _constants(engine: str, names: list[str], logs: Column) -> Constants:
    other = {name: value for name, value in _GIVEN[engine].items() if name not in names}
    return Constants(**other, **dict(zip(names, np.exp(logs).tolist(), strict=True)))


if __name__ == "__main__":
    main()
