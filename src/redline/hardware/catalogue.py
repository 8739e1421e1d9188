"""The catalogue of published figures: load and check it, and find the one record that a name means."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import isfinite
from pkgutil import get_data

import msgspec

from redline.errors import UnknownHardwareError
from redline.hardware.machine import BEST_MATMUL, DTYPES, PEAK, Figure, Machine
from redline.units import format_bytes
from redline.values import dataclass

# What devices report of the memory that vendors state, as a share of it counted in GiB ("80 GB" are 80 GiB of chips).
# Devices in real traces: 0.985 to 1.000. Cards with GDDR and error correction, and B300, report down to 0.92.
_REPORTED_MEMORY = (0.90, 1.001)
_GIB_PER_GB = 1024**3 / 1000**3

_VENDOR_WORDS = ("nvidia geforce ", "nvidia ", "geforce ", "tesla ", "amd instinct ")
_DATE = re.compile(r"20\d\d-(0[1-9]|1[0-2])")
_LISTED = 8
_CHOOSE = "`redline hardware` lists the records; choose one with `machine=NAME`, or your own with `machine=FILE`"


# --- the file ---------------------------------------------------------------------------------------------------------


class _Number(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A number that has a source, a date or a doubt of its own."""

    value: float
    source: str = ""
    date: str = ""
    low_confidence: bool = False


class _Record(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One [[accelerator]], in the units of data sheets."""

    id: str
    vendor: str
    architecture: str
    form: str
    year: int
    source: str
    date: str
    link: str
    sibling: str = ""
    low_confidence: bool = False
    names: list[str] = []
    memory_type: str = ""
    engines: str = ""
    memory_gb: float | _Number | None = None
    memory_gb_per_s: float | _Number | None = None
    peak_tflops: dict[str, float | _Number] = {}
    fabric_gb_per_s: float | _Number | None = None
    pair_gb_per_s: float | _Number | None = None
    fabric_devices: float | _Number | None = None
    nic_gbit_per_s: float | _Number | None = None
    pcie_gb_per_s: float | _Number | None = None
    multiprocessors: float | _Number | None = None
    power_w: float | _Number | None = None
    best_matmul_tflops: dict[str, float | _Number] = {}
    best_matmul_source: str = ""
    notes: list[str] = []


class _Undecided(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Names that say what a device is, but not well enough to give it figures."""

    names: list[str]
    because: str
    nearest: str


@dataclass(frozen=True)
class Catalogue:
    """All records, and the names that are refused with a reason."""

    machines: tuple[Machine, ...]
    refused: Mapping[str, str]
    """By name as `plain` makes it: why no figures are assumed, and what to do."""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    accelerator: list[_Record]
    undecided: list[_Undecided] = []


def parse(text: str) -> Catalogue:
    """The catalogue in this TOML. What is wrong with it is a ValueError: the file is ours, so a mistake is a bug."""
    file = msgspec.convert(tomllib.loads(text), _File)
    machines = tuple(_with_peaks_of_sibling([_machine(record) for record in file.accelerator]))
    ids = [plain(machine.name) for machine in machines]
    doubles = sorted({name for name in ids if ids.count(name) > 1})
    if doubles:
        raise ValueError(f"the catalogue has two records {doubles[0]!r}")
    return Catalogue(machines, dict(_refused(file.undecided, machines)))


def _machine(record: _Record) -> Machine:
    for word in ("id", "vendor", "architecture", "form", "source", "link"):
        if not getattr(record, word).strip():
            raise ValueError(f"{record.id or 'a record'}: {word} is empty")
    if record.best_matmul_tflops and not record.best_matmul_source.strip():
        raise ValueError(f"{record.id}: best_matmul_tflops has no best_matmul_source")
    if len({plain(name) for name in record.names} - {""}) < len(record.names):
        raise ValueError(f"{record.id}: a name is empty or stands twice")
    return Machine(
        name=record.id,
        vendor=record.vendor,
        architecture=record.architecture,
        form=record.form,
        year=record.year,
        driver_names=tuple(record.names),
        memory_type=record.memory_type,
        link=record.link,
        sibling=record.sibling,
        engines=record.engines,
        notes=tuple(record.notes),
        figures=dict(_figures(record)),
    )


def _with_peaks_of_sibling(machines: Sequence[Machine]) -> Iterator[Machine]:
    """What the chip can do, as doubtful: the board may limit power or clocks. Nothing of the board or the server."""
    by_name = {machine.name: machine for machine in machines}
    for machine in machines:
        if machine.sibling and machine.sibling not in by_name:
            raise ValueError(f"{machine.name}: there is no record {machine.sibling!r} to be its sibling")
        given = by_name[machine.sibling].figures if machine.sibling else {}
        peaks = {
            name: replace(figure, source=f"{machine.sibling}, its sibling: {figure.source}", low_confidence=True)
            for name, figure in given.items()
            if name.startswith(PEAK) or name == "memory_bytes_per_s"
        }
        yield replace(machine, figures={**peaks, **machine.figures})


def _figures(record: _Record) -> Iterator[tuple[str, Figure]]:
    plain_numbers = (
        ("memory_bytes", record.memory_gb, 1e9),
        ("memory_bytes_per_s", record.memory_gb_per_s, 1e9),
        ("fabric_bytes_per_s", record.fabric_gb_per_s, 1e9),
        ("pair_bytes_per_s", record.pair_gb_per_s, 1e9),
        ("fabric_devices", record.fabric_devices, 1),
        ("nic_bytes_per_s", record.nic_gbit_per_s, 1e9 / 8),
        ("pcie_bytes_per_s", record.pcie_gb_per_s, 1e9),
        ("multiprocessors", record.multiprocessors, 1),
        ("power_w", record.power_w, 1),
    )
    for name, number, scale in plain_numbers:
        if number is not None:
            yield name, _figure(record, name, number, scale, record.source)
    for name, by_dtype, source in (
        (PEAK, record.peak_tflops, record.source),
        (BEST_MATMUL, record.best_matmul_tflops, record.best_matmul_source),
    ):
        for dtype, number in by_dtype.items():
            if dtype not in DTYPES:
                raise ValueError(f"{record.id}: there is no dtype {dtype!r}; there are: {', '.join(DTYPES)}")
            yield f"{name}.{dtype}", _figure(record, f"{name}.{dtype}", number, 1e12, source)


def _figure(record: _Record, name: str, written: float | _Number, scale: float, source: str) -> Figure:
    number = written if isinstance(written, _Number) else _Number(value=written)
    date = number.date or record.date
    if not _DATE.fullmatch(date):
        raise ValueError(f"{record.id}: {name}: the date {date!r} is not a year and a month, such as 2026-08")
    if not isfinite(number.value) or number.value <= 0:
        raise ValueError(f"{record.id}: {name}: {number.value} is not above zero; leave out what is not known")
    return Figure(
        value=float(round(number.value * scale)),  # whole bytes and FLOPs: 1307.4 * 1e12 is not, in binary
        source=number.source or source,
        date=date,
        low_confidence=record.low_confidence or number.low_confidence,
    )


def _refused(undecided: list[_Undecided], machines: tuple[Machine, ...]) -> Iterator[tuple[str, str]]:
    taken = {plain(name) for machine in machines for name in machine.driver_names}
    for entry in undecided:
        if entry.nearest not in {machine.name for machine in machines}:
            raise ValueError(f"undecided: there is no record {entry.nearest!r}")
        for name in entry.names:
            if plain(name) in taken:
                raise ValueError(f"undecided: {name!r} is also the name of a record")
            yield (
                plain(name),
                f"{name!r} is {entry.because}, so no figures are assumed for it\n"
                f"if it runs like the record {entry.nearest}, say so with `machine={entry.nearest!r}`; "
                "or give your own with `machine=FILE`",
            )


@cache
def _shipped() -> Catalogue:
    return parse((get_data("redline.hardware", "catalogue.toml") or b"").decode())


def machines() -> tuple[Machine, ...]:
    """Every record, in the order of the file."""
    return _shipped().machines


def record(name: str) -> Machine | None:
    """The record of exactly this name."""
    return next((machine for machine in machines() if machine.name == name), None)


def plain(name: str) -> str:
    """A name for comparing: case and the number of spaces do not count."""
    return " ".join(name.casefold().split())


# --- the record of a device -------------------------------------------------------------------------------------------


def match(device_name: str, memory_bytes: int = 0, multiprocessors: int = 0) -> Machine:
    """The one record of a device that calls itself so, or UnknownHardwareError.

    The whole name must be in the record. Memory and multiprocessors (0: not known) decide between records that share a
    name, and refuse a device that cannot be the record of its name, such as a slice of a card.
    """
    wanted = plain(device_name)
    reported = _reported(memory_bytes, multiprocessors)
    if not wanted:
        raise UnknownHardwareError(f"the device has no name{reported}, so no figures are known for it\n{_CHOOSE}")
    named = [machine for machine in machines() if wanted in map(plain, machine.driver_names)]
    if not named:
        reason = _shipped().refused.get(wanted)
        raise UnknownHardwareError(reason or f"no figures are known for a device named {device_name!r}\n{_CHOOSE}")
    fitting = [machine for machine in named if _fits(machine, memory_bytes, multiprocessors)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise UnknownHardwareError(f"{device_name!r}{reported} could be {_names(fitting)}\n{_CHOOSE}")
    raise UnknownHardwareError(
        f"{device_name!r}{reported} is not {_names(named)}: part of one, or a variant?\n{_CHOOSE}"
    )


def _fits(machine: Machine, memory_bytes: int, multiprocessors: int) -> bool:
    memory, units = machine.memory_bytes, machine.multiprocessors
    low, high = (share * _GIB_PER_GB for share in _REPORTED_MEMORY)
    fits_memory = not memory_bytes or memory is None or low <= memory_bytes / memory.value <= high
    return fits_memory and (not multiprocessors or units is None or multiprocessors == units.value)


def _reported(memory_bytes: int, multiprocessors: int) -> str:
    facts = [format_bytes(memory_bytes)] if memory_bytes else []
    facts += [f"{multiprocessors} multiprocessors"] if multiprocessors else []
    return f" (it reports {' and '.join(facts)})" if facts else ""


def _names(named: list[Machine]) -> str:
    words = [machine.name for machine in named[:_LISTED]]
    if len(named) > _LISTED:
        words.append(f"{len(named) - _LISTED} more")
    return ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else words[0]


# --- what a user types ------------------------------------------------------------------------------------------------


def search(text: str) -> tuple[Machine, ...]:
    """The records that a user may mean: that of this id, else of this name, else all that have it in a name."""
    wanted, squeezed = plain(text), _squeezed(text)
    if not squeezed:
        return ()
    by_id = tuple(machine for machine in machines() if plain(machine.name) == wanted)
    by_name = tuple(machine for machine in machines() if wanted in set(_spoken(machine)))
    return (
        by_id
        or by_name
        or tuple(
            machine
            for machine in machines()
            if any(squeezed in _squeezed(known) for known in (machine.name, *machine.driver_names))
        )
    )


def find(text: str) -> Machine:
    """The one record that a user means by this, or UnknownHardwareError."""
    matching = search(text)
    if not matching:
        raise UnknownHardwareError(f"there is no record {text!r} in the catalogue; `redline hardware` lists them all")
    if len(matching) > 1:
        raise UnknownHardwareError(f"{text!r} could be {_names(list(matching))}; give the whole name of one")
    return matching[0]


def _spoken(machine: Machine) -> Iterator[str]:
    """Names as drivers print them, and as people say them: without the vendor."""
    for name in map(plain, machine.driver_names):
        yield name
        yield from (name.removeprefix(words) for words in _VENDOR_WORDS if name.startswith(words))


def _squeezed(name: str) -> str:
    """Letters and digits alone, so that `h100 sxm` finds H100-SXM5."""
    return re.sub(r"[^a-z0-9]", "", name.casefold())
