"""A whole calibration of one device: all families of probes in turn, several times, then what it comes to."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from redline.probes import compute, doubling, intensity, loader, memory, overhead, peaks
from redline.probes.bench import Effort, Samples, take
from redline.probes.conditions import Start, Watch
from redline.probes.device import Device
from redline.probes.law import fit_law
from redline.probes.record import Calibration, Declined, KernelPoint, Law, LoaderPoint, Peak
from redline.probes.subject import subject_of

# What is sampled in passes, and the family that it belongs to.
_SAMPLED = {compute: "compute", memory: "memory", overhead: "overhead", doubling: "overhead", intensity: "roofline"}
_FEWEST_PASSES = 2  # what they disagree in is in the intervals
Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Extent:
    """How long a calibration takes."""

    passes: int
    """At most; after the second pass, no further one begins that would likely end too late."""
    passes_s: float
    """For all of them."""
    effort: Effort
    sustain_s: float


FULL = Extent(
    passes=4,
    passes_s=150,
    effort=Effort(rounds=5, sample_ns=2_000_000, call_limit_ns=2_000_000_000),
    sustain_s=8.0,
)
QUICK = Extent(
    passes=3,
    passes_s=25,
    effort=Effort(rounds=3, sample_ns=1_000_000, call_limit_ns=500_000_000),
    sustain_s=1.0,
)


def calibrate_device(families: Collection[str], start: Start, *, quick: bool, tell: Tell) -> Calibration:
    """All of `families` but the collectives, which take processes of their own."""
    run = _Run(families, start, quick, tell)
    run.take_passes()
    loaders, declined = run.loaders()
    best = run.peaks()
    noise = run.watch.noise()
    kernels = compute.points(run.samples[compute], noise=noise)
    return Calibration(
        subject=subject_of(run.device),
        date=start.date,
        seconds=round(start.seconds, 1),
        quick=quick,
        conditions=run.watch.conditions(),
        kernels=kernels,
        laws=laws_of(kernels),
        peaks=best,
        bandwidths=memory.points(run.samples[memory], noise=noise),
        overheads=overhead.points(run.samples[overhead], noise=noise),
        loaders=loaders,
        doublings=doubling.points(run.samples[doubling], noise=noise),
        roofline=intensity.roofline(run.samples[intensity], noise=noise),
        declined=(*(one for samples in run.samples.values() for one in samples.declines()), *declined),
    )


def laws_of(kernels: Sequence[KernelPoint]) -> tuple[Law, ...]:
    matmuls = [point for point in kernels if point.family == compute.MATMUL]
    dtypes = dict.fromkeys(point.dtype for point in matmuls)
    laws = (fit_law([point for point in matmuls if point.dtype == dtype]) for dtype in dtypes)
    return tuple(law for law in laws if law is not None)


class _Run:
    """One calibration under way."""

    def __init__(self, families: Collection[str], start: Start, quick: bool, tell: Tell) -> None:
        self.families, self.quick, self.tell = families, quick, tell
        self.extent = QUICK if quick else FULL
        self.device = Device()
        self.device.refuse_unless_usable()
        self.watch = Watch(self.device, start)
        self.samples: dict[ModuleType, Samples[Any]] = {module: Samples() for module in _SAMPLED}

    def take_passes(self) -> None:
        """Every family once per pass: what changes on the machine within minutes meets them all, and shows."""
        chosen = [module for module, family in _SAMPLED.items() if family in self.families]
        cases = [(module, module.cases(self.device, quick=self.quick)) for module in chosen]
        began_s = time.monotonic()
        for turn in range(self.extent.passes):
            spent_s = time.monotonic() - began_s
            if turn >= _FEWEST_PASSES and spent_s * (turn + 1) / turn > self.extent.passes_s:
                break
            for module, of_module in cases:
                self._tell(f"pass {turn + 1} of {self.extent.passes}: {module.__name__.rpartition('.')[2]}")
                take(of_module, self.device, self.extent.effort, self.samples[module])
                gc.collect()  # the arrays of one family are large, and the next ones need their place

    def loaders(self) -> tuple[tuple[LoaderPoint, ...], tuple[Declined, ...]]:
        if "overhead" not in self.families:
            return (), ()
        self._tell("data loader")
        return loader.loader_points(self.device, quick=self.quick, noise=self.watch.noise())

    def peaks(self) -> tuple[Peak, ...]:
        if "compute" not in self.families:
            return ()
        self._tell("sustained rate")
        found = peaks.peaks(
            self.samples[compute], self.device, noise=self.watch.noise(), sustain_s=self.extent.sustain_s
        )
        self.watch.beat()
        return found

    def _tell(self, what: str) -> None:
        self.tell(what)
        self.watch.beat()
