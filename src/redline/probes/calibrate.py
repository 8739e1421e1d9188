"""A whole calibration of one device: all families of probes in turn, several times, then what it comes to."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from redline.probes import compute, doubling, intensity, loader, memory, overhead, peaks
from redline.probes.bench import Effort, Samples, take
from redline.probes.conditions import Watch
from redline.probes.device import Device
from redline.probes.law import fit_law
from redline.probes.record import Calibration, Declined, KernelPoint, Law
from redline.probes.subject import subject_of

Tell = Callable[[str], None]
_SAMPLED: dict[str, Any] = {"compute": compute, "memory": memory, "overhead": overhead, "roofline": intensity}


_FEWEST_PASSES = 2  # what they disagree in is in the intervals


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
    passes=4, passes_s=150, effort=Effort(rounds=5, sample_ns=2_000_000, call_limit_ns=2_000_000_000), sustain_s=8.0
)
QUICK = Extent(
    passes=3, passes_s=25, effort=Effort(rounds=3, sample_ns=1_000_000, call_limit_ns=500_000_000), sustain_s=1.0
)


@dataclass
class _Taken:
    """What has been sampled so far, by family."""

    samples: dict[str, Samples[Any]] = field(default_factory=dict)

    def of(self, family: str) -> Samples[Any]:
        return self.samples.setdefault(family, Samples())


def calibrate_device(families: Collection[str], *, quick: bool, tell: Tell) -> Calibration:
    """All of `families` but the collectives, which take processes of their own."""
    extent = QUICK if quick else FULL
    began_s, date = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    device = Device()
    watch = Watch(device)
    taken = _sampled(device, families, extent, watch, tell, quick=quick)
    found = _more(device, families, taken, extent, watch, tell, quick=quick)
    noise = watch.noise()
    kernels = compute.points(taken.of("compute"), noise=noise)
    roofline = intensity.roofline(taken.of("roofline"), noise=noise)
    declined = [one for family in taken.samples.values() for one in family.declines()]
    return Calibration(
        subject=subject_of(device),
        date=date,
        seconds=round(time.monotonic() - began_s, 1),
        quick=quick,
        conditions=watch.conditions(),
        kernels=kernels,
        laws=laws_of(kernels),
        bandwidths=memory.points(taken.of("memory"), noise=noise),
        overheads=overhead.points(taken.of("overhead"), noise=noise),
        roofline=roofline,
        peaks=found.peaks,
        loaders=found.loaders,
        doublings=found.doublings,
        declined=(*declined, *found.declined),
    )


def laws_of(kernels: tuple[KernelPoint, ...]) -> tuple[Law, ...]:
    matmuls = [point for point in kernels if point.family == "matmul"]
    dtypes = dict.fromkeys(point.dtype for point in matmuls)
    laws = (fit_law([point for point in matmuls if point.dtype == dtype]) for dtype in dtypes)
    return tuple(law for law in laws if law is not None)


def _sampled(
    device: Device, families: Collection[str], extent: Extent, watch: Watch, tell: Tell, *, quick: bool
) -> _Taken:
    """Every family once per pass: what changes on the machine within minutes meets them all, and shows."""
    taken = _Taken()
    chosen = [family for family in _SAMPLED if family in families]
    cases = {family: _SAMPLED[family].cases(device, quick=quick) for family in chosen}
    began_s = time.monotonic()
    for turn in range(extent.passes):
        spent_s = time.monotonic() - began_s
        if turn >= _FEWEST_PASSES and spent_s * (turn + 1) / turn > extent.passes_s:
            break
        for family in chosen:
            tell(f"pass {turn + 1} of {extent.passes}: {family}")
            watch.beat()
            take(cases[family], device, extent.effort, taken.of(family))
            gc.collect()  # the arrays of one family are large, and the next ones need their place
    watch.beat()
    return taken


@dataclass(frozen=True, kw_only=True)
class _More:
    """What is not sampled in passes."""

    peaks: tuple[Any, ...] = ()
    loaders: tuple[Any, ...] = ()
    doublings: tuple[Any, ...] = ()
    declined: tuple[Declined, ...] = ()


def _more(
    device: Device,
    families: Collection[str],
    taken: _Taken,
    extent: Extent,
    watch: Watch,
    tell: Tell,
    *,
    quick: bool,
) -> _More:
    found: dict[str, Any] = {}
    if "overhead" in families:
        tell("data loader")
        found["loaders"], found["declined"] = loader.loader_points(device, quick=quick, noise=watch.noise())
        watch.beat()
        tell("doubling of a batch")
        found["doublings"] = doubling.doubling_points(device, quick=quick, noise=watch.noise())
        watch.beat()
    if "compute" in families:
        tell("sustained rate")
        found["peaks"] = peaks.peaks(taken.of("compute"), device, noise=watch.noise(), sustain_s=extent.sustain_s)
        watch.beat()
    return _More(**found)
