"""Machines that are alike: what was measured on one of them stands for all that it has no measurements of its own for.

Nearest is the architecture ("Hopper sm90"): H100, H800, H200 and GH200 are the same die with other memory and links.
Whatever is measured on several of them is pooled, so that two machines that differ in one figure differ in that alone.
Next is the generation ("Blackwell", of sm100, sm103 and sm120).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from redline.hardware.machine import Machine

Value = TypeVar("Value")


def kin(machine: Machine) -> tuple[str, ...]:
    """The nearest first."""
    architecture = machine.architecture
    return tuple(dict.fromkeys(name for name in (architecture, generation(architecture)) if name))


def generation(architecture: str) -> str:
    return architecture.split(" ", maxsplit=1)[0]


def of_kin(known: Mapping[str, Value], machine: Machine) -> Value | None:
    """Of the nearest kin that has one."""
    return next((known[name] for name in kin(machine) if name in known), None)


def pooled(rows: Sequence[tuple[str, tuple[float, ...]]]) -> dict[str, tuple[float, ...]]:
    """The mean of rows by architecture, and by generation."""
    named = [(name, values) for architecture, values in rows for name in _names(architecture)]
    return {
        each: tuple(sum(column) / len(column) for column in zip(*_of(named, each), strict=True))
        for each in dict.fromkeys(name for name, _ in named)
    }


def _names(architecture: str) -> Iterator[str]:
    yield from dict.fromkeys((architecture, generation(architecture)))


def _of(named: Sequence[tuple[str, tuple[float, ...]]], wanted: str) -> list[tuple[float, ...]]:
    return [values for name, values in named if name == wanted]
