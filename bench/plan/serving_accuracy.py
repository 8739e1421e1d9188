"""How far predicted figures of serving lie from the published ones, on rows that no constant was fitted to."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from bench.plan.rows import Mask
from bench.plan.serving import ServingRows, load_serving
from bench.plan.serving_errors import SCORED, log_errors, predicted
from bench.plan.serving_intervals import covered_left_out
from bench.plan.serving_left_out import ServingResiduals, serving_residuals
from bench.plan.validation import HELD_OUT, LEFT_OUT, SPECULATIVE, LeftOutGroup, ServingAccuracy
from redline.model.model import Column
from redline.plan.serve.serving_plan import ServingSituation, situation_of, trust_of


def serving_accuracy() -> tuple[ServingAccuracy, ...]:
    """Per engine and metric: held-out rows, groups left out, speculative decoding apart, and held-out rows by GPU."""
    rows, _ = load_serving()
    errors = log_errors(rows, predicted(rows))
    held, guess = rows.held_out > 0, rows.speculative > 0
    tables: list[ServingAccuracy] = []
    for engine, metrics in SCORED.items():
        mine = np.array([name == engine for name in rows.engine])
        gpus = sorted({gpu for gpu, of in zip(rows.gpu, mine, strict=True) if of})
        others = {SPECULATIVE: held & guess} | {gpu: held & ~guess & _on(rows, gpu) for gpu in gpus}
        for metric in metrics:
            known = np.isfinite(errors[metric]) & mine
            halves = {HELD_OUT: known & held & ~guess}, {name: known & of for name, of in others.items()}
            tables += _held_out(rows, metric, errors[metric], halves[0])
            tables += _left_out(engine, metric)
            tables += _held_out(rows, metric, errors[metric], halves[1])
    return tuple(tables)


def held_out_of(tables: Sequence[ServingAccuracy]) -> dict[tuple[str, str], ServingAccuracy]:
    """The main line of each engine and metric."""
    return {(accuracy.engine, accuracy.metric): accuracy for accuracy in tables if accuracy.group == HELD_OUT}


def left_out_groups() -> tuple[LeftOutGroup, ...]:
    """Which model or GPU is the worst: all that were left out."""
    rows, _ = load_serving()
    names = dict(zip(rows.ids, rows.names, strict=True))
    return tuple(
        group for engine in SCORED for situation in ServingSituation for group in _groups_of(engine, situation, names)
    )


# --- rows -------------------------------------------------------------------------------------------------------------


def _on(rows: ServingRows, gpu: str) -> Mask:
    return np.array([name == gpu for name in rows.gpu])


def _held_out(rows: ServingRows, metric: str, errors: Column, parts: Mapping[str, Mask]) -> Iterator[ServingAccuracy]:
    for name, of in parts.items():
        if of.any():
            engine = rows.engine[int(np.flatnonzero(of)[0])]
            yield _accuracy(engine, metric, name, errors[of], _in_stated(rows, metric, errors, of), 1)


def _in_stated(rows: ServingRows, metric: str, errors: Column, of: Mask) -> Mask | None:
    """Whether each row lies in the interval that a plan of it states."""
    inside: list[bool] = []
    for at in np.flatnonzero(of).tolist():
        engine = rows.engine[at]
        trust = trust_of(engine, situation_of(engine, rows.gpu[at]), metric)
        if trust is None:
            return None
        inside.append(bool(trust.low <= np.exp(-errors[at]) <= trust.high))
    return np.array(inside)


def _left_out(engine: str, metric: str) -> Iterator[ServingAccuracy]:
    for situation, name in LEFT_OUT.items():
        told = serving_residuals(situation, metric)
        own = told.engines == engine
        if own.any():
            is_stated = trust_of(engine, situation, metric) is not None
            inside = covered_left_out(situation, metric)[own] if is_stated else None
            yield _accuracy(engine, metric, name, -told.logs[own], inside, len(np.unique(told.groups[own])))


def _accuracy(engine: str, metric: str, group: str, logs: Column, inside: Mask | None, groups: int) -> ServingAccuracy:
    error = np.exp(logs) - 1
    return ServingAccuracy(
        engine=engine,
        metric=metric,
        group=group,
        rows=len(logs),
        groups=groups,
        median=float(np.median(np.abs(error))),
        p90=float(np.quantile(np.abs(error), 0.9)),
        bias=float(np.median(error)),
        covered=None if inside is None else float(inside.mean()),
    )


# --- groups -----------------------------------------------------------------------------------------------------------


def _groups_of(engine: str, situation: ServingSituation, names: Mapping[str, str]) -> Iterator[LeftOutGroup]:
    told: dict[str, ServingResiduals] = {}
    for metric in SCORED[engine]:
        every = serving_residuals(situation, metric)
        told[metric] = every.where(every.engines == engine)
    for group in sorted({name for each in told.values() for name in each.groups.tolist()}):
        own = {metric: each.where(each.groups == group) for metric, each in told.items()}
        ids = {row_id for each in own.values() for row_id in each.ids.tolist()}
        yield LeftOutGroup(
            engine=engine,
            situation=situation,
            name=_shortest(names[row_id] for row_id in ids) if situation is ServingSituation.MODEL else group,
            rows=len(ids),
            bias={metric: float(np.median(np.expm1(-each.logs))) for metric, each in own.items() if len(each)},
        )


def _shortest(published: Iterable[str]) -> str:
    """Models of one shape have several names."""
    return min((name.rpartition("/")[2] for name in published), key=lambda name: (len(name), name))
