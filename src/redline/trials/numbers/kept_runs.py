"""Numbers that are kept to be checked later, with or without the runs that tell how far others may be off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redline.capture.number_check import STEPS
from redline.capture.supervisor.trial_command import TrialCommand
from redline.errors import InputError
from redline.numerics import Numerics
from redline.trials.numbers.check import NumbersResult, check_source
from redline.trials.numbers.floors import PERTURBED_RUNS, NumberFloors, floors_of
from redline.trials.numbers.recorded_runs import NumbersReference, folder_name
from redline.trials.numbers.run_numbers import RunNumbers, read_run


def record_numbers(
    program: TrialCommand, folder: Path, *, floors: Sequence[Numerics] = (), steps: int = STEPS, seed: int = 0
) -> RunNumbers:
    """Record a program for later; with `floors` of these classes others can be judged against it."""
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; give another folder to record to")
    reference = NumbersReference(program, folder, steps=steps, seed=seed)
    plain = reference.recorded()
    reference.recorded(fp32=True)
    for numerics in floors:
        reference.floors(numerics)
        if numerics is Numerics.LOWER_PRECISION or plain.is_low_precision:
            reference.floors(Numerics.REASSOCIATION, fp32=True)
    return plain


def check_kept(reference: Path, candidate: Path, *, claimed: Numerics = Numerics.REASSOCIATION) -> NumbersResult:
    """Two folders of `record_numbers`. InputError where one lacks what is needed, and which that is."""
    return check_source(_Kept(reference, candidate), claimed)


@dataclass(frozen=True)
class _Kept:
    """Runs that are on disk."""

    before: Path
    after: Path

    def reference(self, *, fp32: bool) -> RunNumbers:
        return _read(self.before, fp32)

    def candidate(self, *, fp32: bool) -> RunNumbers:
        return _read(self.after, fp32)

    def floors(self, numerics: Numerics, *, fp32: bool) -> NumberFloors:
        fp32 = fp32 and self.reference(fp32=False).is_low_precision
        folders = [self.before / folder_name(fp32, numerics, number) for number in range(1, PERTURBED_RUNS + 1)]
        if not all(folder.exists() for folder in folders):
            raise InputError(
                f"the numbers differ, and {self.before} does not tell whether by more than {numerics} may; "
                f"record it with the floor of {numerics}"
            )
        return floors_of(self.reference(fp32=fp32), [read_run(folder) for folder in folders], numerics)


def _read(folder: Path, fp32: bool) -> RunNumbers:
    plain = read_run(folder / folder_name(False))
    return read_run(folder / folder_name(True)) if fp32 and plain.is_low_precision else plain
