"""Intervals of figures of serving by situation: between which multiples of a prediction 80 % of measured ones lie.

As those of step time (`intervals`), they come from errors on runs whose group was left out of the fit, and groups say
how much is known: an engine with few borrows from the others. Each figure and situation of an engine is widened or
narrowed until the intervals of its groups, made without them, hold 80 % of its runs.
"""

from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np

from bench.plan.intervals import BORROWED_GROUPS, SHARE, WIDTHS, by_root, weighted_quantiles
from bench.plan.rows import Mask, Numbers
from bench.plan.serving_errors import SCORED
from bench.plan.serving_left_out import ServingResiduals, serving_residuals
from bench.plan.serving_repeats import first_token_repeats
from redline.plan.serve.serving_plan import EVERY, LEAST_GROUPS, FigureTrust, ServingSituation

# A request is mostly the time of its tokens after the first, and hardly any pages give its time.
BORROWED = {"latency_s": "tpot_s"}
DIGITS = 3


@dataclass(frozen=True, kw_only=True)
class _Pool:
    """Residuals of one figure of all engines, and those of figures that it borrows from."""

    told: ServingResiduals
    own: Mask
    """Of the figure itself."""


def covered_left_out(situation: ServingSituation, metric: str) -> Mask:
    """Per residual: whether the measured figure lies in the interval that is made without its group."""
    told = serving_residuals(situation, metric)
    inside = np.zeros(len(told), np.bool_)
    for engine in np.unique(told.engines).tolist():
        own = told.engines == engine
        inside[own] = inside_widened(situation, metric, serving_widening(situation, metric, engine))[own]
    return inside


@cache
def serving_widening(situation: ServingSituation, metric: str, engine: str) -> float:
    """The factor at which intervals hold their share: of the engine's runs, or where it has too few groups of all.

    Too few groups of all do not tell it either: then it is that of the figure that is borrowed from.
    """
    told = serving_residuals(situation, metric)
    if metric in BORROWED and len(np.unique(told.groups)) < LEAST_GROUPS:
        return serving_widening(situation, BORROWED[metric], engine)
    weights = by_root(told.engines)
    weights = weights / weights.sum() + 1 / len(told)  # of runs and of engines, in the mean
    if len(np.unique(told.groups[told.engines == engine])) >= LEAST_GROUPS:
        weights = (told.engines == engine).astype(np.float64)
    low, high = WIDTHS
    for _ in range(30):
        middle = (low + high) / 2
        held = float(np.average(inside_widened(situation, metric, middle), weights=weights))
        low, high = (middle, high) if held < SHARE else (low, middle)
    return high


def inside_widened(situation: ServingSituation, metric: str, width: float) -> Mask:
    """As `covered_left_out`, with one factor for all engines."""
    told = serving_residuals(situation, metric)
    inside = np.zeros(len(told), np.bool_)
    for mask, low, middle, high in _unwidened(situation, metric):
        logs = told.logs[mask]
        inside[mask] = (middle + width * (low - middle) <= logs) & (logs <= middle + width * (high - middle))
    return inside


def interval_left_out(engine: str, situation: ServingSituation, metric: str) -> tuple[float, float] | None:
    """In multiples of the predicted figure; None where too few groups were left out, of all engines together."""
    pool = _pool(situation, metric)
    if len(np.unique(pool.told.groups)) < LEAST_GROUPS:
        return None
    width = serving_widening(situation, metric, engine)
    low, middle, high = _quantiles(pool, np.ones(len(pool.told), np.bool_), engine)
    return float(np.exp(middle + width * (low - middle))), float(np.exp(middle + width * (high - middle)))


@cache
def _pool(situation: ServingSituation, metric: str) -> _Pool:
    parts = [serving_residuals(situation, name) for name in (metric, BORROWED.get(metric)) if name is not None]
    names = ("ids", "engines", "groups", "logs")
    told = ServingResiduals(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})
    return _Pool(told=told, own=np.arange(len(told)) < len(parts[0]))


@cache
def _unwidened(situation: ServingSituation, metric: str) -> tuple[tuple[Mask, float, float, float], ...]:
    """Of every group of every engine: its runs, and the quantiles of others."""
    told, pool = serving_residuals(situation, metric), _pool(situation, metric)
    found: list[tuple[Mask, float, float, float]] = []
    for engine, group in sorted(set(zip(told.engines.tolist(), told.groups.tolist(), strict=True))):
        own = (told.engines == engine) & (told.groups == group)
        allowed = pool.told.groups != group
        if allowed.any():
            found.append((own, *_quantiles(pool, allowed, engine)))
    return tuple(found)


def _quantiles(pool: _Pool, allowed: Mask, engine: str) -> tuple[float, float, float]:
    """The tenth, the middle and the ninetieth percentile: of the engine by its number of groups, else of all."""
    own = allowed & pool.own & (pool.told.engines == engine)
    groups = len(np.unique(pool.told.groups[own]))
    share = groups / (groups + BORROWED_GROUPS)
    weights: Numbers = share * own / max(int(own.sum()), 1) + (1 - share) * allowed / allowed.sum()
    tail = (1 - SHARE) / 2
    low, middle, high = weighted_quantiles(pool.told.logs, weights, (tail, 0.5, 1 - tail))
    return low, middle, high


# --- what plans quote -------------------------------------------------------------------------------------------------


@cache
def serving_trust() -> dict[str, Any]:
    """The section `serving` of `accuracy.json` but its explanation."""
    return {
        "figures": {
            situation.value: {
                engine: {metric: asdict(found) for metric in metrics if (found := _trust(engine, situation, metric))}
                for engine, metrics in SCORED.items()
            }
            for situation in ServingSituation
        },
        "first_token_repeats": {name: _rounded(value) for name, value in asdict(first_token_repeats()).items()},
    }


def _trust(engine: str, situation: ServingSituation, metric: str) -> FigureTrust | None:
    ends = interval_left_out(engine, situation, metric)
    if ends is None:
        return None
    own = serving_residuals(situation, metric)
    own = own.where(own.engines == engine)
    is_enough = len(np.unique(own.groups)) >= LEAST_GROUPS
    told = own if is_enough else _pool(situation, metric).told
    errors = np.abs(np.expm1(-told.logs))
    return FigureTrust(
        low=_rounded(ends[0]),
        high=_rounded(ends[1]),
        engine=engine if is_enough else EVERY,
        rows=len(told),
        groups=len(np.unique(told.groups)),
        median=_rounded(float(np.median(errors))),
        p90=_rounded(float(np.quantile(errors, 0.9))),
    )


def _rounded(value: float) -> float:
    return value if isinstance(value, int) else round(value, DIGITS)
