"""Runs with numbers that are made up, for tests of how they are judged."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from redline.trials.numbers.run_numbers import RunNumbers, TensorKey, TensorSketch

Values = NDArray[np.float64]


def tensor(values: Values, *, copy: str = "rank 0", dtype: str = "float32", non_finite: int = 0) -> TensorSketch:
    return TensorSketch(
        copy=copy,
        sketch=values,
        square_sum=float(values @ values),
        shape=values.shape,
        dtype=dtype,
        non_finite=non_finite,
        hash=values.tobytes().hex(),
    )


def run(
    tensors: Mapping[TensorKey, Values | tuple[TensorSketch, ...]], *, world: int = 1, lowered: bool = False
) -> RunNumbers:
    return RunNumbers(
        world=world,
        steps=max(key.step for key in tensors) + 1,
        by_optimizer=True,
        lowered=lowered,
        tensors={key: value if isinstance(value, tuple) else (tensor(value),) for key, value in tensors.items()},
    )


def key(kind: str, name: str, step: int = 0) -> TensorKey:
    return TensorKey(step, kind, name)


def model(seed: int = 0) -> dict[TensorKey, Values]:
    """Two steps of a model with three modules, in the order in which they are computed."""
    generator = np.random.default_rng(seed)
    tensors = {key("start", name): generator.normal(size=50) for name in ("a.weight", "b.weight", "c.weight")}
    for step in range(2):
        tensors |= {key("activation", name, step): generator.normal(size=80) for name in ("a", "b", "c", "")}
        tensors[key("loss", "loss", step)] = generator.normal(size=1)
        tensors |= {key("gradient", f"{name}.weight", step): generator.normal(size=50) for name in "cba"}
        tensors |= {key("movement", f"{name}.weight", step): generator.normal(size=50) for name in "abc"}
    return tensors


def off(values: Values, share: float, seed: int = 0) -> Values:
    """The same values, wrong by a share of their norm in a direction of chance."""
    wrong = np.random.default_rng(seed).normal(size=values.shape)
    moved: Values = values + wrong * share * np.linalg.norm(values) / np.linalg.norm(wrong)
    return moved


def all_off(tensors: Mapping[TensorKey, Values], share: float, seed: int = 0) -> dict[TensorKey, Values]:
    changed = {name: off(values, share, seed + number) for number, (name, values) in enumerate(tensors.items())}
    return {name: tensors[name] if name.kind == "start" else values for name, values in changed.items()}
