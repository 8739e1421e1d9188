"""The result of `hardware` as JSON for machines; docs/reference/hardware.md describes every field."""

from collections.abc import Sequence
from typing import Any

from redline.artifacts import Envelope
from redline.hardware.machine import DTYPES, FIGURE_UNITS, Figure, Machine
from redline.report.json_text import json_text

KIND = "hardware"
SCHEMA_VERSION = 1


def render(machines: Sequence[Machine]) -> str:
    return json_text(as_record(machines))


def as_record(machines: Sequence[Machine]) -> dict[str, Any]:
    envelope = Envelope(
        kind=KIND,
        schema_version=SCHEMA_VERSION,
        made_by="redline hardware",
        synthetic=any(machine.synthetic for machine in machines),
    )
    return {**envelope.to_dict(), "machines": [_machine(machine) for machine in machines]}


def _machine(machine: Machine) -> dict[str, Any]:
    ridges = {dtype: machine.ridge_flops_per_byte(dtype) for dtype in DTYPES}
    return {
        "name": machine.name,
        "base": machine.base,
        "vendor": machine.vendor,
        "architecture": machine.architecture,
        "form": machine.form,
        "year": machine.year,
        "driver_names": list(machine.driver_names),
        "memory_type": machine.memory_type,
        "link": machine.link,
        "engines": machine.engines,
        "notes": list(machine.notes),
        "ridge_flops_per_byte": {dtype: ridge for dtype, ridge in ridges.items() if ridge is not None},
        "figures": [_figure(name, machine.figures[name]) for name in FIGURE_UNITS if name in machine.figures],
        "unusable": [
            {**_figure(name, machine.unusable[name]), "why": machine.unusable[name].unusable}
            for name in FIGURE_UNITS
            if name in machine.unusable
        ],
    }


def _figure(name: str, figure: Figure) -> dict[str, Any]:
    return {
        "name": name,
        "value": figure.value,
        "unit": FIGURE_UNITS[name],
        "origin": str(figure.origin),
        "source": figure.source,
        "date": figure.date,
        "low_confidence": figure.low_confidence,
        "spread": figure.spread,
    }
