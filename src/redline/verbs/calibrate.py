"""`redline calibrate`: what this machine can do, measured, as a profile that other verbs take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from redline.calibration.budget import FULL_S, QUICK_S, Budget
from redline.calibration.calibration_record import FAMILIES, Calibration
from redline.calibration.compare import Comparison, figures
from redline.calibration.compare import compare as compare_calibrations
from redline.errors import InputError, UsageError
from redline.hardware.machine import Machine
from redline.hardware.profile import load_calibration, save_profile
from redline.progress import Progress, ProgressStage, silent
from redline.storage import path_of

if TYPE_CHECKING:
    from redline.calibration.calibration_record import Collectives
    from redline.calibration.collectives.start import OperationExample


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """All that was measured, and the machine that it describes."""

    calibration: Calibration
    machine: Machine

    @property
    def is_healthy(self) -> bool:
        """Whether no rank and no link was found slow, and no result of a collective wrong."""
        return self.calibration.collectives is None or self.calibration.collectives.is_healthy

    def save(self, path: str | Path, *, made_by: str = "redline.calibrate", force: bool = False) -> None:
        """Write the profile: the figures that `diagnose` takes as its `machine`, and all measurements behind them."""
        measured = msgspec.to_builtins(self.calibration)
        save_profile(self.machine, path_of(path), made_by=made_by, force=force, calibration=measured)


def calibrate(
    *,
    quick: bool = False,
    only: Sequence[str] | None = None,
    torchrun: Sequence[str] = (),
    tell: Callable[[str], None] = lambda _: None,
    progress: Progress = silent,
    budget: float | Budget | None = None,
) -> Calibrated | None:
    """Measure this machine, or only some families of it, in `budget` seconds of wall time: what matters most first.

    Collectives are measured among processes that torchrun starts with its options `torchrun`. None on a machine that
    took part in the collectives of others and keeps no result of its own.
    """
    _require_torch()
    families = chosen(only, has_processes=bool(torchrun))
    if not isinstance(budget, Budget):
        budget = budget_of(budget, quick=quick)
    from redline.calibration.conditions import seen, start_now

    start = start_now()
    tell(f"{seen(start)}; at most {budget.seconds:g} s")
    if "collectives" in families:
        progress(ProgressStage.COLLECTIVES, 0, 0)
    collectives = _collectives(torchrun, quick=quick, tell=tell, budget=budget) if "collectives" in families else None
    if torchrun and collectives is None:
        return None
    progress(ProgressStage.MEASURE, 0, 1)
    from redline.calibration.calibrate import calibrate_device
    from redline.calibration.figures import machine_of

    budget.has_results = collectives is not None
    others = [family for family in families if family != "collectives"]
    calibration = calibrate_device(
        others, start, quick=quick, tell=tell, progress=progress, budget=budget, is_all=collectives is None
    )
    calibration = replace(calibration, collectives=collectives)
    return Calibrated(calibration=calibration, machine=machine_of(calibration))


def budget_of(seconds: float | None, *, quick: bool) -> Budget:
    """As long as was said, else as long as such a calibration may take; it begins now."""
    return Budget(seconds if seconds is not None else QUICK_S if quick else FULL_S)


def chosen(only: Sequence[str] | None, *, has_processes: bool) -> tuple[str, ...]:
    """The families to measure: those asked for; without a wish all that can be."""
    unknown = [family for family in only or () if family not in FAMILIES]
    if unknown:
        raise UsageError(f"calibrate: there is no family {unknown[0]!r}; there are: {', '.join(FAMILIES)}")
    wanted = tuple(family for family in FAMILIES if only is None or family in only)
    if not wanted:
        raise UsageError(f"calibrate: `only=...` names no family; there are: {', '.join(FAMILIES)}")
    if only is not None and "collectives" in wanted and not has_processes:
        raise UsageError("calibrate: collectives need processes; say how many, such as --nproc-per-node 2")
    if has_processes and "collectives" not in wanted:
        raise UsageError(
            "calibrate: options of torchrun are for collectives; add collectives to `only=...`, or drop them"
        )
    return wanted if has_processes else tuple(family for family in wanted if family != "collectives")


def _collectives(
    torchrun: Sequence[str], *, quick: bool, tell: Callable[[str], None], budget: Budget
) -> Collectives | None:
    from redline.calibration.collectives.start import measure_collectives

    tell("collectives")
    return measure_collectives(torchrun, quick=quick, left_s=budget.left_s())


def show_collectives(torchrun: Sequence[str]) -> tuple[OperationExample, ...] | None:
    """What each collective does to a few numbers on every rank. None on a machine without the first rank."""
    _require_torch()
    from redline.calibration.collectives import start

    return start.show_collectives(torchrun)


def _require_torch() -> None:
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise UsageError("calibrate: torch is not installed here; install it as your machine needs it (pytorch.org)")


def load_calibrated(path: str | Path) -> Calibrated:
    """A profile that `redline calibrate` wrote."""
    machine, record = load_calibration(path_of(path))
    try:
        calibration = msgspec.convert(record, Calibration)
        estimates = [calibration_figure.estimate for calibration_figure in figures(calibration)]
    except (msgspec.ValidationError, ZeroDivisionError, OverflowError) as error:
        raise InputError(f"{path}: its measurements are not sound: {error}; calibrate anew") from error
    if not all(
        map(isfinite, (number for estimate in estimates for number in (estimate.value, estimate.low, estimate.high)))
    ):
        raise InputError(f"{path}: its measurements are not sound: a figure is not finite; calibrate anew")
    return Calibrated(calibration=calibration, machine=machine)


def compare(first: Calibrated, second: Calibrated) -> Comparison:
    """Two machines or two days, figure by figure."""
    return compare_calibrations(first.calibration, second.calibration)
