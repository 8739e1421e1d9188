"""A calibrated profile: a file of figures measured on one machine, and the choice between it and the catalogue."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path

import msgspec

from redline.artifacts import Envelope, write_atomic
from redline.artifacts.file_kind import MOST_NUMBER, FileKind
from redline.errors import InputError
from redline.hardware import catalogue
from redline.hardware.machine import FIGURE_UNITS, Figure, FigureSource, Machine, calibrated, split_usable, too_wide
from redline.storage import path_of

KIND = "machine-profile"
SCHEMA_VERSION = 1
_OF_UNIT = {"B": (1, 1e18), "B/s": (1, 1e18), "FLOP/s": (1, 1e24), "OP/s": (1, 1e24), "ns": (1e-3, 1e15), "W": (1, 1e9)}
_OF_COUNTS = (1, 1e7)
_DATE = re.compile(r"20\d\d-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?")


class _Measured(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One figure as the file writes it."""

    value: float
    when: str
    how: str
    spread: float | None = None
    unusable: str = ""


class _Profile(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    kind: str
    schema_version: int
    made_by: str
    synthetic: bool
    redline_version: str
    name: str
    base: str = ""
    vendor: str = ""
    architecture: str = ""
    notes: list[str] = []
    figures: dict[str, _Measured]
    calibration: dict[str, object] | None = None
    """All that was measured, for those who draw or compare it. The figures are what it comes to."""


PROFILE = FileKind(
    "a machine profile",
    _Profile,
    "correct or remake it",
    most_bytes=10_000_000,
    envelope=(KIND, SCHEMA_VERSION),
    numbers=(1e-30, MOST_NUMBER),
)


def choose(text: str | None, device_name: str, memory_bytes: int = 0, multiprocessors: int = 0) -> Machine:
    """The machine that the user named, by a record or a profile; the record of the device where the user named none."""
    if text is None:
        return catalogue.match(device_name, memory_bytes, multiprocessors)
    return find_machine(text)


def find_machine(text: str) -> Machine:
    """The machine of a profile, or the one record of the catalogue that this name means."""
    return load_profile(path_of(text)) if is_profile_path(text) else catalogue.find(text)


def is_profile_path(text: str) -> bool:
    """Tell whether this names a file rather than a record. A record wins over a file that happens to have its name."""
    looks_like_one = text.endswith(".json") or os.sep in text
    return looks_like_one or (not catalogue.search(text) and _is_file(text))


def _is_file(text: str) -> bool:
    try:
        return path_of(text).is_file()
    except (OSError, InputError):  # a name that no file can have, such as one that is too long
        return False


# --- reading ----------------------------------------------------------------------------------------------------------


def load_profile(path: Path) -> Machine:
    """The machine of a profile: its own figures, and those of the record that it is based on for all others."""
    return _machine(_sound(path), path)


def load_calibration(path: Path) -> tuple[Machine, Mapping[str, object]]:
    """The machine of a profile, and all that `redline calibrate` measured of it."""
    profile = _sound(path)
    if profile.calibration is None:
        raise InputError(f"{path} has figures only, not the measurements behind them; make it with `redline calibrate`")
    return _machine(profile, path), profile.calibration


def _sound(path: Path) -> _Profile:
    profile = PROFILE.read(path)
    if not profile.name.strip():
        raise InputError(f"{path} names no machine: its field 'name' is empty; correct or remake it")
    return profile


def _machine(profile: _Profile, path: Path) -> Machine:
    figures = {name: _figure(name, measured, path) for name, measured in profile.figures.items()}
    if not profile.base:
        usable, unusable = split_usable(figures)
        return Machine(
            name=profile.name,
            vendor=profile.vendor,
            architecture=profile.architecture,
            synthetic=profile.synthetic,
            notes=tuple(profile.notes),
            figures=usable,
            unusable=unusable,
        )
    base = catalogue.record(profile.base)
    if base is None:
        raise InputError(
            f"{path} is based on the record {profile.base!r}, which the catalogue does not have; "
            "`redline hardware` lists the records"
        )
    return calibrated(base, profile.name, figures, synthetic=profile.synthetic, notes=tuple(profile.notes))


def _figure(name: str, measured: _Measured, path: Path) -> Figure:
    where = f"{path}: figures: {name}"
    if name not in FIGURE_UNITS:
        quantities = dict.fromkeys(known.partition(".")[0] for known in FIGURE_UNITS)
        raise InputError(f"{path}: there is no figure {name!r}; there are: {', '.join(quantities)}, some by type")
    if not isfinite(measured.value) or measured.value <= 0:
        raise InputError(f"{where}: the value {measured.value} is not above zero; leave out what is not known")
    unit = FIGURE_UNITS[name]
    least, most = _OF_UNIT.get(unit, _OF_COUNTS)
    if not least <= measured.value <= most:
        raise InputError(
            f"{where}: {measured.value:g} {unit} is not between {least:g} and {most:g}; correct it or leave it out"
        )
    if not _DATE.fullmatch(measured.when):
        raise InputError(f"{where}: {measured.when!r} in 'when' is not a date; write it like 2026-08-14")
    if not measured.how.strip():
        raise InputError(f"{where}: 'how' is empty; say how it was measured")
    if measured.spread is not None and not 0 <= measured.spread <= MOST_NUMBER:
        raise InputError(f"{where}: the spread {measured.spread} is not a share of the value, such as 0.02")
    return Figure(
        value=measured.value,
        source=measured.how,
        date=measured.when,
        origin=FigureSource.CALIBRATED,
        spread=measured.spread,
        unusable=measured.unusable or too_wide(measured.spread),  # profiles of before do not say it
    )


# --- writing ----------------------------------------------------------------------------------------------------------


def save_profile(
    machine: Machine,
    path: Path,
    *,
    made_by: str,
    force: bool = False,
    calibration: Mapping[str, object] | None = None,
) -> None:
    """Write the calibrated figures of a machine. The published ones stay in the record that it is based on."""
    base = catalogue.record(machine.base)
    published = [name for name, figure in machine.figures.items() if figure.origin is not FigureSource.CALIBRATED]
    if machine.base and base is None:
        raise ValueError(f"{machine.name}: its base {machine.base!r} is no record of the catalogue")
    if published and base is None:
        raise ValueError(f"{machine.name}: {published[0]} was not calibrated and has no record to be read from again")
    envelope = Envelope(kind=KIND, schema_version=SCHEMA_VERSION, made_by=made_by, synthetic=machine.synthetic)
    record = {**envelope.to_dict(), **dict(_content(machine, base))}
    if calibration is not None:
        record["calibration"] = calibration
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    with write_atomic(path, force=force) as file:
        file.write(text.encode())


def _content(machine: Machine, base: Machine | None) -> Iterator[tuple[str, object]]:
    yield "name", machine.name
    if base is not None:
        yield "base", base.name
    else:
        yield from (("vendor", machine.vendor), ("architecture", machine.architecture))
    yield "notes", list(machine.notes[len(base.notes) if base else 0 :])
    measured = {name: figure for name, figure in machine.figures.items() if figure.origin is FigureSource.CALIBRATED}
    yield "figures", {name: _written(figure) for name, figure in {**measured, **machine.unusable}.items()}


def _written(figure: Figure) -> dict[str, object]:
    record = {"value": figure.value, "when": figure.date, "how": figure.source, "spread": figure.spread}
    return {**record, "unusable": figure.unusable} if figure.unusable else record
