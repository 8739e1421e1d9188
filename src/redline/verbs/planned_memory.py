"""The memory that a plan of training predicts, from the JSON of `redline plan train` or from the plan itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from redline.artifacts.file_kind import FileKind
from redline.errors import InputError
from redline.ledger.memory.plan_comparison import OUTSIDE_PART, PlannedMemory, planned_accounts
from redline.plan.train.layout import Layout
from redline.plan.train.step_cost import MemoryUse
from redline.plan.train.training_choices import PipelineSchedule, Recompute
from redline.report.plan.train.training_report import KIND, SCHEMA_VERSION, record_of
from redline.storage import path_of, shown
from redline.verbs.plan_results import PlannedTraining

_AGAIN = "plan again with `redline plan train ... -o plan.json`"
_Amount = Annotated[float, msgspec.Meta(ge=0, le=1e18)]


class _Best(msgspec.Struct, kw_only=True):
    """The part of a plan's best layout that is needed here."""

    memory: dict[str, _Amount]
    layout: dict[str, float | str]
    micro_batches: int


class _Plan(msgspec.Struct, kw_only=True):
    """The same of a plan."""

    model: str
    machine: str
    dtype: str
    devices: int
    best: _Best


_PLAN = FileKind("a plan of training", _Plan, _AGAIN, most_bytes=32 << 20, envelope=(KIND, SCHEMA_VERSION))


def planned_memory(plan: str | Path | PlannedTraining) -> PlannedMemory:
    """Of the best layout. InputError where a file is no plan of training, or has no memory by parts."""
    if isinstance(plan, PlannedTraining):
        return _of_plan(_PLAN.shaped(record_of(plan.plan), "the plan"), "")
    return _of_plan(_PLAN.read(path_of(plan)), shown(plan))


def _of_plan(plan: _Plan, file: str) -> PlannedMemory:
    try:
        layout = _layout(plan.best.layout)
    except (TypeError, KeyError) as error:
        raise InputError(f"{file} is a plan without a layout, or damaged: {error}; {_AGAIN}") from error
    missing = set(MemoryUse.__dataclass_fields__) - set(plan.best.memory)
    if missing:
        raise InputError(f"{file} is a plan of another version, without {min(missing)}; {_AGAIN}")
    return PlannedMemory(
        file=file,
        model=plan.model,
        machine=plan.machine,
        dtype=plan.dtype,
        devices=plan.devices,
        layout=layout,
        micro_batches=plan.best.micro_batches,
        accounts=planned_accounts(plan.best.memory),
        outside_bytes=round(plan.best.memory[OUTSIDE_PART]),
    )


def _layout(written: Mapping[str, float | str]) -> Layout:
    """Choices by number again. KeyError or TypeError where it is none."""
    numbers = {name: value for name, value in written.items() if not isinstance(value, str)}
    return Layout(
        **numbers,
        schedule=PipelineSchedule[str(written["schedule"]).upper()],
        recompute=Recompute[str(written["recompute"]).upper()],
    )
