"""Two calibrations side by side as JSON; docs/reference/calibrate.md describes every field."""

from dataclasses import asdict
from typing import Any

from redline.artifacts import Envelope
from redline.probes.calibration_record import Calibration, Estimate
from redline.probes.compare import CalibrationFigure, Comparison, Row
from redline.report.json_text import json_text

KIND = "calibration-comparison"
SCHEMA_VERSION = 1
MADE_BY = "redline calibrate --compare"


def render(comparison: Comparison, *, synthetic: bool = False, made_by: str = MADE_BY) -> str:
    return json_text(as_record(comparison, synthetic=synthetic, made_by=made_by))


def as_record(comparison: Comparison, *, synthetic: bool = False, made_by: str = MADE_BY) -> dict[str, Any]:
    envelope = Envelope(kind=KIND, schema_version=SCHEMA_VERSION, made_by=made_by, synthetic=synthetic)
    return {
        **envelope.to_dict(),
        "interleaved": False,
        "first": _side(comparison.first),
        "second": _side(comparison.second),
        "rows": [_row(row) for row in comparison.rows],
        "only_first": [_figure(calibration_figure) for calibration_figure in comparison.only_first],
        "only_second": [_figure(calibration_figure) for calibration_figure in comparison.only_second],
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


def _figure(calibration_figure: CalibrationFigure) -> dict[str, Any]:
    named = {
        "family": calibration_figure.family,
        "quantity": calibration_figure.quantity,
        "of": calibration_figure.of,
        "unit": calibration_figure.unit,
    }
    return {**named, "estimate": _estimate(calibration_figure.estimate)}


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return asdict(estimate)
