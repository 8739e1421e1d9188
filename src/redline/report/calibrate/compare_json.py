"""Two calibrations side by side as JSON; docs/reference/calibrate.md describes every field."""

from dataclasses import asdict
from typing import Any

from redline.artifacts import Envelope
from redline.probes.calibration_record import Calibration, Estimate
from redline.probes.compare import CalibrationFigure, Comparison, Row
from redline.report.json_text import json_text

KIND = "calibration-comparison"
SCHEMA_VERSION = 1


def render(found: Comparison, *, synthetic: bool = False) -> str:
    return json_text(as_record(found, synthetic=synthetic))


def as_record(found: Comparison, *, synthetic: bool = False) -> dict[str, Any]:
    envelope = Envelope(
        kind=KIND, schema_version=SCHEMA_VERSION, made_by="redline calibrate --compare", synthetic=synthetic
    )
    return {
        **envelope.to_dict(),
        "first": _side(found.first),
        "second": _side(found.second),
        "rows": [_row(row) for row in found.rows],
        "only_first": [_figure(one) for one in found.only_first],
        "only_second": [_figure(one) for one in found.only_second],
    }


def _side(calibration: Calibration) -> dict[str, Any]:
    return {
        "name": calibration.subject.name,
        "host": calibration.subject.host,
        "date": calibration.date,
        "seconds": calibration.seconds,
        "quick": calibration.quick,
        "noisy": list(calibration.conditions.noisy),
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "family": row.family,
        "quantity": row.quantity,
        "of": row.of,
        "unit": row.unit,
        "first": _estimate(row.first),
        "second": _estimate(row.second),
        "ratio": row.finite_ratio,
        "verdict": str(row.verdict),
    }


def _figure(one: CalibrationFigure) -> dict[str, Any]:
    named = {"family": one.family, "quantity": one.quantity, "of": one.of, "unit": one.unit}
    return {**named, "estimate": _estimate(one.estimate)}


def _estimate(one: Estimate) -> dict[str, Any]:
    return asdict(one)
