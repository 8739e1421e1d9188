"""What one accelerator can do at best: figures, each with its value, source, date and origin."""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from math import ceil

from redline.values import dataclass

DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8")
PEAK, BEST_MATMUL = "peak_flops_per_s", "best_matmul_flops_per_s"
SUSTAINED_MATMUL = "sustained_matmul_flops_per_s"
# The three constants of matmuls: max(flops / compute, bytes / memory) + fixed.
LAW_COMPUTE, LAW_MEMORY, LAW_FIXED = "matmul_compute_flops_per_s", "matmul_memory_bytes_per_s", "matmul_fixed_ns"
# Of collectives: latency + size / rate, among the devices of one node, and among nodes.
LATENCY, RATE = "collective_latency_ns", "collective_bytes_per_s"
LEVELS = ("node", "across")
COLLECTIVES = (
    "broadcast", "reduce", "all_reduce", "gather", "all_gather", "scatter", "reduce_scatter", "all_to_all", "send_recv",
)  # fmt: skip


def work_unit(dtype: str) -> str:
    """In which a rate of arithmetic is stated; a type may also be one that stands for another, such as fp32-as-bf16."""
    return "OP/s" if dtype.startswith("int") else "FLOP/s"


# Every figure that a machine may have, and the unit of its value.
FIGURE_UNITS: Mapping[str, str] = {
    "memory_bytes": "B",
    "memory_bytes_per_s": "B/s",
    **{f"{PEAK}.{dtype}": work_unit(dtype) for dtype in DTYPES},
    **{f"{BEST_MATMUL}.{dtype}": work_unit(dtype) for dtype in DTYPES},
    **{f"{SUSTAINED_MATMUL}.{dtype}": work_unit(dtype) for dtype in DTYPES},
    **{f"{LAW_COMPUTE}.{dtype}": work_unit(dtype) for dtype in DTYPES},
    **{f"{LAW_MEMORY}.{dtype}": "B/s" for dtype in DTYPES},
    **{f"{LAW_FIXED}.{dtype}": "ns" for dtype in DTYPES},
    "fabric_bytes_per_s": "B/s",
    "pair_bytes_per_s": "B/s",
    "fabric_devices": "",
    "nic_bytes_per_s": "B/s",
    "pcie_bytes_per_s": "B/s",
    "multiprocessors": "",
    "power_w": "W",
    "launch_ns": "ns",
    "dispatch_ns": "ns",
    **{f"{LATENCY}.{level}.{name}": "ns" for level in LEVELS for name in COLLECTIVES},
    **{f"{RATE}.{level}.{name}": "B/s" for level in LEVELS for name in COLLECTIVES},
}


WIDEST = 0.25
"""A measured figure whose interval reaches further than this to either side, as a share of the value, is not used."""
UNUSED = "measured figures are not used: {names} ({name}: {why}); calibrate again on a quiet machine"
_MOST_NAMED = 3


class FigureSource(StrEnum):
    """Where a figure comes from."""

    CATALOGUE = "catalogue"
    CALIBRATED = "calibrated"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number about a machine, and how far it can be trusted."""

    value: float
    source: str
    """Who published it, or how it was measured."""
    date: str
    """When it was taken down or measured: 2026-08 or 2026-08-14."""
    origin: FigureSource = FigureSource.CATALOGUE
    low_confidence: bool = False
    spread: float | None = None
    """Of a measured figure: how far the further end of its interval is from the value, as a share of the value."""
    unusable: str = ""
    """Why nobody may use it, although it was measured; "" for a figure that can be used."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One accelerator. A figure that is not known is None: never that of another dtype, link or machine."""

    name: str
    vendor: str = ""
    architecture: str = ""
    form: str = ""
    year: int = 0
    driver_names: tuple[str, ...] = ()
    memory_type: str = ""
    link: str = ""
    engines: str = ""
    """What it computes with, where that is not a number of multiprocessors."""
    sibling: str = ""
    """The record of the same chip on another board, whose peaks stand in for unpublished ones; "" for none."""
    base: str = ""
    """Of a calibrated profile: the record of the catalogue that the other figures are from."""
    synthetic: bool = False
    """True when any figure was made up rather than published or measured."""
    notes: tuple[str, ...] = ()
    # Outside the hash, so that machines can be keys; equality still compares it.
    figures: Mapping[str, Figure] = field(default_factory=dict, hash=False)
    unusable: Mapping[str, Figure] = field(default_factory=dict, hash=False)
    """Measured figures that say why they are not usable. Nothing computes with them: they are as good as not known."""

    def __post_init__(self) -> None:
        unknown = sorted({*self.figures, *self.unusable} - set(FIGURE_UNITS))
        if unknown:
            raise ValueError(f"{self.name}: there is no figure {unknown[0]!r}")

    def value(self, name: str, otherwise: float = 0.0) -> float:
        """The value of a figure; `otherwise` where it is not known."""
        figure = self.figures.get(name)
        return otherwise if figure is None else figure.value

    def peak_flops_per_s(self, dtype: str) -> Figure | None:
        """The dense peak. fp32 is that of the vector units; a matmul in fp32 that may use tf32 has the peak of tf32."""
        return self.figures.get(f"{PEAK}.{_known(dtype)}")

    def best_matmul_flops_per_s(self, dtype: str) -> Figure | None:
        """The most that was ever measured in a matmul of any shape: what to plan with where it is known."""
        return self.figures.get(f"{BEST_MATMUL}.{_known(dtype)}")

    def ridge_flops_per_byte(self, dtype: str) -> float | None:
        """The FLOPs per byte of memory traffic above which the peak, and not the memory, is the limit."""
        peak, bandwidth = self.peak_flops_per_s(dtype), self.memory_bytes_per_s
        return None if peak is None or bandwidth is None else peak.value / bandwidth.value

    @property
    def memory_bytes(self) -> Figure | None:
        """The size that vendors state; a device reports a few percent more or less."""
        return self.figures.get("memory_bytes")

    @property
    def memory_bytes_per_s(self) -> Figure | None:
        return self.figures.get("memory_bytes_per_s")

    @property
    def fabric_bytes_per_s(self) -> Figure | None:
        """All that one device can send to the others of its scale-up domain, in one direction."""
        return self.figures.get("fabric_bytes_per_s")

    @property
    def pair_bytes_per_s(self) -> Figure | None:
        """What one device can send to one other of its scale-up domain, in one direction."""
        return self.figures.get("pair_bytes_per_s")

    @property
    def fabric_devices(self) -> Figure | None:
        """How many devices the scale-up domain has."""
        return self.figures.get("fabric_devices")

    @property
    def nic_bytes_per_s(self) -> Figure | None:
        """The network of a usual server, per device, in one direction."""
        return self.figures.get("nic_bytes_per_s")

    @property
    def pcie_bytes_per_s(self) -> Figure | None:
        return self.figures.get("pcie_bytes_per_s")

    @property
    def multiprocessors(self) -> Figure | None:
        """Streaming multiprocessors or compute units."""
        return self.figures.get("multiprocessors")

    @property
    def power_w(self) -> Figure | None:
        return self.figures.get("power_w")

    @property
    def launch_ns(self) -> Figure | None:
        """The least time from one kernel's launch to the next one's. Known only where it was calibrated."""
        return self.figures.get("launch_ns")

    @property
    def dispatch_ns(self) -> Figure | None:
        """What the host needs for one operator, whatever its size. Known only where it was calibrated."""
        return self.figures.get("dispatch_ns")


def calibrated(
    machine: Machine,
    name: str,
    figures: Mapping[str, Figure],
    *,
    synthetic: bool = False,
    notes: tuple[str, ...] = (),
) -> Machine:
    """The machine under a name of its own, with these measured figures in the place of the published ones.

    Where a measured figure is not usable, the published one stays.
    """
    measured = {key: replace(figure, origin=FigureSource.CALIBRATED) for key, figure in figures.items()}
    usable, unusable = split_usable(measured)
    return replace(
        machine,
        name=name,
        base=machine.base or machine.name,
        synthetic=machine.synthetic or synthetic,
        notes=(*machine.notes, *notes),
        figures={**machine.figures, **usable},
        unusable=unusable,
    )


def split_usable(figures: Mapping[str, Figure]) -> tuple[dict[str, Figure], dict[str, Figure]]:
    """Those that can be used, and those that cannot."""
    usable = {name: figure for name, figure in figures.items() if not figure.unusable}
    return usable, {name: figure for name, figure in figures.items() if figure.unusable}


def too_wide(spread: float | None) -> str:
    """Why a figure with such an interval cannot be used; "" where it can."""
    if spread is None or spread <= WIDEST:
        return ""
    return f"its interval reaches {ceil(round(100 * spread, 3))} % to one side, more than {100 * WIDEST:.0f} %"


def why_unusable(machine: Machine, names: Iterable[str] = ()) -> str:
    """One line: which measured figures, of these or of all, are not used, why, and what to do. "" where there is none.

    The first reason stands for all of them: they were measured on the same machine within minutes.
    """
    chosen = [name for name in FIGURE_UNITS if name in machine.unusable and (not names or name in names)]
    if not chosen:
        return ""
    more = f" and {len(chosen) - _MOST_NAMED} more" if len(chosen) > _MOST_NAMED else ""
    return UNUSED.format(
        names=", ".join(chosen[:_MOST_NAMED]) + more, name=chosen[0], why=machine.unusable[chosen[0]].unusable
    )


def _known(dtype: str) -> str:
    if dtype not in DTYPES:
        raise ValueError(f"there is no dtype {dtype!r}; there are: {', '.join(DTYPES)}")
    return dtype
