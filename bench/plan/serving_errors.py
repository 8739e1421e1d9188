"""Predictions of the published runs of serving, and how far they lie from what was measured."""

from collections.abc import Mapping, Sequence
from dataclasses import fields

import numpy as np

from bench.plan.serving import ServingRows
from redline.model.model import Column
from redline.plan.serve.forward_passes import ServeOutcome
from redline.plan.serve.plan import serve
from redline.plan.serve.setup import Constants, constants_of

# What was measured with each engine.
SCORED: Mapping[str, tuple[str, ...]] = {
    "gpt-fast": ("tpot_s",),
    "SGLang": ("tpot_s", "ttft_s", "tokens_per_s"),
    "TensorRT-LLM": ("tokens_per_s",),
    "vLLM": ("latency_s", "tokens_per_s"),
}


def constant_columns(engines: Sequence[str], gpus: Sequence[str]) -> Constants:
    """One row per engine and GPU."""
    by_row = [constants_of(engine, gpu) for engine, gpu in zip(engines, gpus, strict=True)]
    return Constants(
        **{f.name: np.array([getattr(constants, f.name) for constants in by_row]) for f in fields(Constants)}
    )


def predicted(rows: ServingRows) -> ServeOutcome:
    return serve(rows.setup(constant_columns(rows.engine, rows.gpu)), rows.traffic)


def log_errors(rows: ServingRows, outcome: ServeOutcome) -> dict[str, Column]:
    """log(predicted / measured) per metric; NaN where a row was not measured, or its engine is not scored by it."""
    columns: dict[str, Column] = {}
    for metric in sorted({metric for metrics in SCORED.values() for metric in metrics}):
        asked = np.array([metric in SCORED[engine] for engine in rows.engine])
        columns[metric] = np.where(asked, np.log(getattr(outcome, metric) / rows.measured[metric]), np.nan)
    return columns
