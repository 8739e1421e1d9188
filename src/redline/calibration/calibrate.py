"""A whole calibration of one device: what matters most first, then all families in turn, then what it comes to."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from redline.calibration import compute, doubling, intensity, loader, memory, overhead
from redline.calibration.bench import BenchmarkCase, Samples, TimingBudget, take
from redline.calibration.budget import FULL_S, QUICK_S, Budget
from redline.calibration.calibration_record import (
    FEWEST_SAMPLES,
    Calibration,
    Declined,
    KernelPoint,
    Law,
    LoaderPoint,
    Peak,
)
from redline.calibration.compute import fit_law
from redline.calibration.conditions import Start, Watch
from redline.calibration.device import ProbeDevice, subject_of
from redline.errors import InputError
from redline.progress import Progress, ProgressStage, silent

# What is sampled in passes, and the family that it belongs to.
_SAMPLED = {compute: "compute", memory: "memory", overhead: "overhead", doubling: "overhead", intensity: "roofline"}
_NAMES = {doubling: "doubling the batch", intensity: "roofline experiment"}
_FIRST_PASSES = 2  # of the figures that matter most: with these they have enough samples
_FEWEST_PASSES = 2  # what they disagree in is in the intervals
_LAST_PARTS = 2  # the loader and sustained rates, as if they were families
_TELL_S = 5.0
Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Extent:
    """How much a calibration does where nothing holds it up."""

    budget_s: float  # in which it has to end, whatever holds it up
    passes: int  # at most; after the second pass, no further one begins that would likely end too late
    passes_s: float  # for all of them
    effort: TimingBudget
    sustain_s: float


FULL = Extent(
    budget_s=FULL_S,
    passes=4,
    passes_s=150,
    effort=TimingBudget(rounds=5, sample_ns=2_000_000, call_limit_ns=2_000_000_000),
    sustain_s=8.0,
)
QUICK = Extent(
    budget_s=QUICK_S,
    passes=3,
    passes_s=25,
    effort=TimingBudget(rounds=3, sample_ns=1_000_000, call_limit_ns=500_000_000),
    sustain_s=1.0,
)


def calibrate_device(
    families: Collection[str],
    start: Start,
    *,
    quick: bool,
    tell: Tell,
    progress: Progress = silent,
    budget: Budget | None = None,
    is_all: bool = True,
) -> Calibration:
    """All of `families` but the collectives, which take processes of their own. Without `is_all`, it may be nothing."""
    run = _Run(families, start, quick, tell, progress, budget or Budget((QUICK if quick else FULL).budget_s))
    run.take_passes()
    if is_all:
        run.refuse_nothing()
    loaders, no_loaders = run.loaders()
    best, no_sustained = run.peaks()
    noise = run.watch.noise()
    kernels = compute.points(run.samples[compute], noise=noise)
    laws, no_laws = run.laws(kernels)
    return Calibration(
        subject=subject_of(run.device),
        date=start.date,
        seconds=round(start.seconds, 1),
        quick=quick,
        conditions=run.watch.conditions(),
        budget_s=run.budget.seconds,
        partial=run.budget.stopped_by,
        kernels=kernels,
        laws=laws,
        peaks=best,
        bandwidths=memory.points(run.samples[memory], noise=noise),
        overheads=overhead.points(run.samples[overhead], noise=noise),
        loaders=loaders,
        doublings=doubling.points(run.samples[doubling], noise=noise),
        roofline=intensity.roofline(run.samples[intensity], noise=noise),
        declined=(*run.declined(), *no_loaders, *no_sustained, *no_laws),
    )


def law_of(kernels: Sequence[KernelPoint], dtype: str) -> Law | None:
    """Of the matmuls that were timed often enough; None where they are too few."""
    matmuls = [point for point in kernels if point.family == compute.MATMUL and point.dtype == dtype]
    return fit_law([point for point in matmuls if point.time_ns.samples >= FEWEST_SAMPLES])


class _Run:
    """One calibration under way."""

    def __init__(
        self, families: Collection[str], start: Start, quick: bool, tell: Tell, progress: Progress, budget: Budget
    ) -> None:
        self.families, self.quick, self.tell, self.progress, self.budget = families, quick, tell, progress, budget
        self.extent = QUICK if quick else FULL
        self.share = min(1.0, budget.seconds / self.extent.budget_s)
        limit_ns = round(self.share * self.extent.effort.call_limit_ns)
        self.effort = replace(self.extent.effort, call_limit_ns=limit_ns)
        self.device = ProbeDevice()
        self.device.refuse_unless_usable()
        self.watch = Watch(self.device, start)
        self.samples: dict[ModuleType, Samples[Any]] = {module: Samples() for module in _SAMPLED}
        self._chosen = [module for module, family in _SAMPLED.items() if family in families]
        self._cases: dict[ModuleType, list[BenchmarkCase[Any]]] = {}
        self._told_s = time.monotonic()
        self._parts = 0  # a family in a pass, begun so far

    # --- passes -------------------------------------------------------------------------------------------------------

    def take_passes(self) -> None:
        """Every family once per pass: what changes on the machine within minutes meets them all, and shows."""
        for turn in range(_FIRST_PASSES):
            for module in (module for module in (compute, memory, overhead) if module in self._chosen):
                self._take(module, self._first_cases(module), f"what matters most, pass {turn + 1} of {_FIRST_PASSES}")
        began_s = time.monotonic()
        for turn in range(self.extent.passes):
            spent_s = time.monotonic() - began_s
            if turn >= _FEWEST_PASSES and spent_s * (turn + 1) / turn > self._most_s(spent_s):
                break
            for module in self._chosen:
                self._take(module, self._all_cases(module), f"pass {turn + 1} of {self.extent.passes}")
        for samples in self.samples.values():
            samples.forget_single()

    def refuse_nothing(self) -> None:
        if any(samples.passes for samples in self.samples.values()):
            return
        if self.budget.stopped_by:
            raise KeyboardInterrupt
        raise InputError(f"calibrate: nothing could be timed in {self.budget.seconds:g} s; give more with `budget=...`")

    def _most_s(self, spent_s: float) -> float:
        """For all passes, so that some of the budget is left for what comes after them."""
        after_s = self.extent.sustain_s * len({kernel.dtype for kernel in self.samples[compute].passes})
        return min(self.extent.passes_s, spent_s + self.budget.left_s() - after_s)

    def _take(self, module: ModuleType, cases: Sequence[BenchmarkCase[Any]], what: str) -> None:
        if self.budget.is_over:
            return
        what = f"{what}: {module.__name__.rpartition('.')[2]}"
        self._tell(what)
        self._tell_share(self._parts)
        self._parts += 1
        take(
            cases,
            self.device,
            self.effort,
            self.samples[module],
            left_s=self.budget.left_s,
            tell=lambda done, of: self._under_way(what, done, of, done > len(cases)),
        )
        gc.collect()  # the arrays of one family are large, and the next ones need their place

    def _under_way(self, what: str, done: int, of: int, is_sampling: bool) -> None:
        self.budget.has_results = self.budget.has_results or is_sampling
        self._tell_again(f"{what}, {done} of {of} timings")
        self._tell_share(self._parts - 1 + done / of)

    def _first_cases(self, module: ModuleType) -> list[BenchmarkCase[Any]]:
        if self.budget.is_over:
            return []
        if module is compute:
            return list(compute.first_cases(self.device, quick=self.quick, share=self.share))
        return list(memory.first_cases(self.device, quick=self.quick)) if module is memory else self._all_cases(module)

    def _all_cases(self, module: ModuleType) -> list[BenchmarkCase[Any]]:
        """Made when they are needed: on a busy machine, compilers and first calls take their time too."""
        if module not in self._cases and not self.budget.is_over:
            more: dict[str, float] = {}
            if module is compute:
                more = {"share": self.share}
            if module is intensity:
                more = {"limit_s": self.budget.left_s()}
            self._cases[module] = module.cases(self.device, quick=self.quick, **more)
        return self._cases.get(module, [])

    # --- after the passes ---------------------------------------------------------------------------------------------

    def loaders(self) -> tuple[tuple[LoaderPoint, ...], tuple[Declined, ...]]:
        if "overhead" not in self.families:
            return (), ()
        self._tell("data loader")
        self._tell_share(self._all_parts - _LAST_PARTS)
        points, declined = loader.loader_points(
            self.device, quick=self.quick, noise=self.watch.noise(), left_s=self.budget.left_s
        )
        return points, declined if points or declined else self._no_time("data loader")

    def peaks(self) -> tuple[tuple[Peak, ...], tuple[Declined, ...]]:
        if "compute" not in self.families:
            return (), ()
        self._tell("sustained rate")
        self._tell_share(self._all_parts - _LAST_PARTS / 2)
        measured = compute.peaks(
            self.samples[compute],
            self.device,
            noise=self.watch.noise(),
            sustain_s=self.extent.sustain_s,
            left_s=self.budget.left_s,
            tell=lambda done, of: self._tell_again(f"sustained rate, {done} of {of} types"),
        )
        self.watch.beat()
        missing = [peak.dtype for peak in measured if peak.sustained_flops_per_s is None]
        return measured, self._no_time(f"sustained rate of {', '.join(missing)}") if missing else ()

    def laws(self, kernels: Sequence[KernelPoint]) -> tuple[tuple[Law, ...], tuple[Declined, ...]]:
        dtypes = dict.fromkeys(point.dtype for point in kernels if point.family == compute.MATMUL)
        fitted = {dtype: law_of(kernels, dtype) for dtype in dtypes if not self.budget.is_late}
        late, few = (
            [dtype for dtype in dtypes if dtype not in fitted],
            [dtype for dtype, law in fitted.items() if law is None],
        )
        declined = [*(self._no_time(f"matmul model in {', '.join(late)}") if late else ())]
        if few:
            why = "too few shapes were timed often enough"
            declined.append(Declined(what=f"matmul model in {', '.join(few)}", why=why))
        return tuple(law for law in fitted.values() if law is not None), tuple(declined)

    def declined(self) -> Iterator[Declined]:
        for module in self._chosen:
            samples = self.samples[module]
            yield from samples.declines()
            cases = self._cases.get(module)
            if cases is None:
                yield from self._no_time(_NAMES.get(module, f"most of {_SAMPLED[module]}"))
                continue
            missing = [
                case.about for case in cases if case.key not in samples.passes and case.about not in samples.declined
            ]
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            yield from self._no_time(missing[0] + more) if missing else ()

    def _no_time(self, what: str) -> tuple[Declined, ...]:
        return (Declined(what=what, why=self.budget.why_over),)

    # --- progress -----------------------------------------------------------------------------------------------------

    def _tell(self, what: str) -> None:
        if self.budget.is_over:
            return
        self.tell(what)
        self._told_s = time.monotonic()
        self.watch.beat()

    @property
    def _all_parts(self) -> int:
        """If no pass is left out."""
        first = [module for module in (compute, memory, overhead) if module in self._chosen]
        return _FIRST_PASSES * len(first) + self.extent.passes * len(self._chosen) + _LAST_PARTS

    def _tell_share(self, parts: float) -> None:
        """Or how much of the budget is gone, where that is more."""
        spent = 1 - self.budget.left_s() / self.budget.measuring_s
        self.progress(ProgressStage.MEASURE, max(parts / self._all_parts, spent), 1)

    def _tell_again(self, what: str) -> None:
        """Nobody should wait for long without a word."""
        if time.monotonic() - self._told_s > _TELL_S:
            self._tell(what)
