"""Predictions of the published runs of serving, and how far they lie from what was measured."""

from collections.abc import Mapping

import numpy as np

from bench.plan.serving import ServingRows
from redline.model.model import Column
from redline.plan.serve.continuous_batching import serve
from redline.plan.serve.forward_passes import ServeOutcome
from redline.plan.serve.setup import constant_columns

# What was measured with each engine.
SCORED: Mapping[str, tuple[str, ...]] = {
    "gpt-fast": ("tpot_s",),
    "SGLang": ("tpot_s", "ttft_s", "tokens_per_s"),
    "TensorRT-LLM": ("tokens_per_s",),
    "vLLM": ("latency_s", "tokens_per_s"),
}


def predicted(rows: ServingRows) -> ServeOutcome:
    return serve(rows.setup(constant_columns(rows.engine, rows.gpu)), rows.traffic)


def log_errors(rows: ServingRows, outcome: ServeOutcome) -> dict[str, Column]:
    """log(predicted / measured) per metric; NaN where a row was not measured, or its engine is not scored by it."""
    columns: dict[str, Column] = {}
    for metric in sorted({metric for metrics in SCORED.values() for metric in metrics}):
        asked = np.array([metric in SCORED[engine] for engine in rows.engine])
        columns[metric] = np.where(asked, np.log(getattr(outcome, metric) / rows.measured[metric]), np.nan)
    return columns
