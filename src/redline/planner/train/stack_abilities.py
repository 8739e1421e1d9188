"""Which layouts a software stack can run: what plans may propose for it."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, kw_only=True)
class StackAbilities:
    """Everything, where nothing is said."""

    only: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Of fields of Layout: the values that exist."""
    zero_in_pipeline: tuple[int, ...] | None = None
    """Stages of ZeRO that go with pipeline parallelism."""

    def has(self, name: str, value: float) -> bool:
        return name not in self.only or value in self.only[name]


@cache
def abilities(stack: str) -> StackAbilities:
    """Of a stack by name; of one that is not known, everything."""
    written = dict(_file().get(stack, {}))
    written.pop("source", None)
    in_pipeline = written.pop("zero_in_pipeline", None)
    only = {name: tuple(values) for name, values in written.items()}
    return StackAbilities(only=only, zero_in_pipeline=None if in_pipeline is None else tuple(in_pipeline))


@cache
def _file() -> dict[str, dict[str, list[int]]]:
    text = (files("redline.planner.train") / "stack_abilities.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
