"""How far predicted figures of serving lie from the published ones, on rows that no constant was fitted to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from redline.model.model import Column
from redline.planner.serve.continuous_batching import serve
from redline.planner.serve.engines import constant_columns, interval_of
from redline.planner.serve.serving_cost import ServeOutcome
from redline.planner.validation.serving import ServingRows, load_serving

# What was measured with each engine.
SCORED: Mapping[str, tuple[str, ...]] = {
    "gpt-fast": ("tpot_s",),
    "SGLang": ("tpot_s", "ttft_s", "tokens_per_s"),
    "TensorRT-LLM": ("tokens_per_s",),
    "vLLM": ("latency_s", "tokens_per_s"),
}


@dataclass(frozen=True, kw_only=True)
class ServingAccuracy:
    """Of one engine, metric and group of held-out rows. Errors are predicted / measured - 1."""

    engine: str
    metric: str
    group: str
    """"held out", "held out, speculative", or a family or record of GPUs."""
    rows: int
    median: float
    """Of absolute errors."""
    p90: float
    bias: float
    """The median of signed errors."""
    covered: float
    """Share of rows inside the stated 80 % interval."""


def predicted(rows: ServingRows) -> ServeOutcome:
    return serve(rows.setup(constant_columns(rows.engine, rows.gpu)), rows.traffic)


def log_errors(rows: ServingRows, outcome: ServeOutcome) -> dict[str, Column]:
    """log(predicted / measured) per metric; NaN where a row was not measured, or its engine is not scored by it."""
    columns: dict[str, Column] = {}
    for metric in sorted({metric for metrics in SCORED.values() for metric in metrics}):
        asked = np.array([metric in SCORED[engine] for engine in rows.engine])
        columns[metric] = np.where(asked, np.log(getattr(outcome, metric) / rows.measured[metric]), np.nan)
    return columns


def serving_accuracy() -> tuple[ServingAccuracy, ...]:
    """Per engine and metric: held-out rows, those with speculative decoding apart, and held-out rows by GPU."""
    rows, _ = load_serving()
    errors = log_errors(rows, predicted(rows))
    held, guess = rows.held_out > 0, rows.speculative > 0
    tables: list[ServingAccuracy] = []
    for engine, metrics in SCORED.items():
        mine = np.array([name == engine for name in rows.engine])
        gpus = sorted({gpu for gpu, of in zip(rows.gpu, mine, strict=True) if of})
        groups = [("held out", held & ~guess), ("held out, speculative", held & guess)]
        groups += [(gpu, held & ~guess & np.array([name == gpu for name in rows.gpu])) for gpu in gpus]
        for metric in metrics:
            accuracies = (_accuracy(engine, metric, name, errors[metric][mine & of]) for name, of in groups)
            tables += [accuracy for accuracy in accuracies if accuracy is not None]
    return tuple(tables)


def _accuracy(engine: str, metric: str, group: str, logs: Column) -> ServingAccuracy | None:
    logs = logs[np.isfinite(logs)]
    interval = interval_of(engine, metric)
    if not len(logs) or interval is None:
        return None
    error, ratio = np.exp(logs) - 1, np.exp(-logs)
    return ServingAccuracy(
        engine=engine,
        metric=metric,
        group=group,
        rows=len(logs),
        median=float(np.median(np.abs(error))),
        p90=float(np.quantile(np.abs(error), 0.9)),
        bias=float(np.median(error)),
        covered=float(np.mean((ratio >= interval.low) & (ratio <= interval.high))),
    )


def held_out_of(tables: Sequence[ServingAccuracy]) -> dict[tuple[str, str], ServingAccuracy]:
    """The main line of each engine and metric."""
    return {(accuracy.engine, accuracy.metric): accuracy for accuracy in tables if accuracy.group == "held out"}
