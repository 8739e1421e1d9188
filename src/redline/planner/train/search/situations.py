"""What a planned job has in common with measured runs: its software, its GPU, its model, its number of GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from redline.planner.train.stacks import format_kind

if TYPE_CHECKING:
    from redline.hardware.machine import Machine
    from redline.model.model import Model


class Situation(StrEnum):
    """What is new about a job. How far its plan can be trusted is known from runs that were predicted so."""

    LAYOUT = "layout"
    """At most its layout: runs of the model, on as many of these GPUs, with this software, were fitted to."""
    MODEL = "model"
    GPUS = "gpus"
    """Its number of GPUs."""
    GPU = "gpu"
    """Its GPU, or number format on it, for this software; other software was measured there."""
    GPU_ANYWHERE = "gpu anywhere"
    STACK = "stack"
    SOURCE = "source"
    """Who measured. Nothing is planned so; runs are scored so."""


@dataclass(frozen=True, kw_only=True)
class PlannedJob:
    """Where and how a job is to run, whatever it trains."""

    stack: str
    machine: Machine
    dtype: str
    devices: int
    adapters: bool = False

    @property
    def chip(self) -> str:
        return chip_of(self.machine.base or self.machine.name)


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A job with its model."""

    job: PlannedJob
    model: Model

    @property
    def unusual(self) -> bool:
        """Mixtures of experts and adapters scatter more."""
        return self.job.adapters or bool(self.model.moe_layers)


@dataclass(frozen=True, kw_only=True)
class MeasuredRuns:
    """Of one stack on one type of GPU: what was fitted to."""

    formats: frozenset[str]
    models: frozenset[str]
    devices: frozenset[int]


def situations(run: PlannedRun, measured: Mapping[str, Mapping[str, MeasuredRuns]]) -> Iterator[Situation]:
    """All that is new; `measured` by stack and GPU."""
    job = run.job
    nowhere = all(job.chip not in chips for chips in measured.values())
    own = measured.get(job.stack)
    if own is None:
        yield Situation.STACK
        if nowhere:
            yield Situation.GPU_ANYWHERE
        return
    here = own.get(job.chip)
    if here is None or format_kind(job.dtype) not in here.formats:
        yield Situation.GPU_ANYWHERE if nowhere else Situation.GPU
        known = tuple(own.values())
    else:
        known = (here,)
    if all(shape_of(run.model) not in each.models for each in known):
        yield Situation.MODEL
    if all(job.devices not in each.devices for each in known):
        yield Situation.GPUS


def chip_of(record: str) -> str:
    """A record without its memory and board: an A100 of 40 GB computes as one of 80 GB does."""
    return record.partition("-")[0]


def shape_of(model: Model) -> str:
    """By which a model is known: names differ between sources."""
    return "/".join(f"{float(getattr(model, name)):.0f}" for name in SHAPE)


SHAPE = ("layers", "hidden", "ffn", "experts")
