"""Whether a program computes what its reference computes, up to the class of change that is claimed for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from redline.capture.number_check import KINDS, STEPS
from redline.capture.supervisor.trial_command import TrialCommand
from redline.errors import InputError
from redline.numerics import Numerics
from redline.trials.numbers.differences import PERTURBED_RUNS, NumberFloors, compare_runs, floors_of
from redline.trials.numbers.judgement import CurveDifference, NumbersJudgement, TensorDeviation, curves, judge
from redline.trials.numbers.recorded_runs import NumbersReference, folder_name
from redline.trials.numbers.run_numbers import RunNumbers, read_run

_CLASSES = (Numerics.BITWISE, Numerics.REASSOCIATION, Numerics.LOWER_PRECISION, Numerics.SEMANTICS)


@dataclass(frozen=True, kw_only=True)
class NumbersResult:
    """What was found of one candidate."""

    claimed: Numerics
    verdict: Numerics  # SEMANTICS where it computes something else
    structure: NumbersJudgement | None  # with nothing in lower precision, against the floor of reassociation
    precision: NumbersJudgement | None  # as it is, against the floor of lower precision
    curves: CurveDifference
    steps: int
    by_optimizer: bool
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """The numbers are as right as was claimed."""
        return _CLASSES.index(self.verdict) <= _CLASSES.index(self.claimed)

    @property
    def first(self) -> TensorDeviation | None:
        """Where it begins. In fp32 a mistake stands out most."""
        judgements = [judged for judged in (self.structure, self.precision) if judged is not None]
        return next((judged.first for judged in judgements if judged.first is not None), None)

    @property
    def score(self) -> float:
        return max((judged.score for judged in (self.structure, self.precision) if judged is not None), default=0.0)


class NumbersSource(Protocol):
    """Where the runs of a reference and one candidate come from: they are started, or were recorded."""

    def reference(self, *, fp32: bool) -> RunNumbers: ...

    def floors(self, numerics: Numerics, *, fp32: bool) -> NumberFloors: ...

    def candidate(self, *, fp32: bool) -> RunNumbers: ...


class _Started:
    """Programs that are started when their numbers are asked for."""

    def __init__(self, reference: NumbersReference, program: TrialCommand) -> None:
        self.reference, self.floors = reference.recorded, reference.floors
        self.candidate = partial(reference.candidate, program)


def check_numbers(
    reference: NumbersReference, candidate: TrialCommand, *, claimed: Numerics = Numerics.REASSOCIATION
) -> NumbersResult:
    """Run what has to be run, one program after the other. InputError where one of them fails."""
    return check_source(_Started(reference, candidate), claimed)


def check_source(source: NumbersSource, claimed: Numerics) -> NumbersResult:
    reference, candidate = source.reference(fp32=False), source.candidate(fp32=False)
    _refuse_unless_comparable(reference, candidate)
    if reference.steps != candidate.steps:
        return _of_common_steps(source, claimed, reference, candidate)
    if compare_runs(reference, candidate).same_bits:
        floors = NumberFloors(numerics=Numerics.BITWISE, norms=dict.fromkeys(reference.tensors, 0.0))
        judged = judge(reference, candidate, floors)
        return _result(claimed, Numerics.BITWISE, judged, None, reference, candidate)
    lowers = reference.is_low_precision or candidate.is_low_precision
    if not lowers and claimed is not Numerics.LOWER_PRECISION:
        judged = judge(reference, candidate, source.floors(Numerics.REASSOCIATION, fp32=False))
        verdict = Numerics.REASSOCIATION if judged.holds else Numerics.SEMANTICS
        return _result(claimed, verdict, judged, None, reference, candidate)
    return _in_two_steps(source, claimed, reference, candidate)


def _of_common_steps(
    source: NumbersSource, claimed: Numerics, reference: RunNumbers, candidate: RunNumbers
) -> NumbersResult:
    """Of runs that took another number of steps: they may be told apart, but nothing can be proven."""
    steps = min(reference.steps, candidate.steps)
    numerics = Numerics.LOWER_PRECISION if claimed is Numerics.LOWER_PRECISION else Numerics.REASSOCIATION
    before, after = reference.first_steps(steps), candidate.first_steps(steps)
    judged = judge(before, after, source.floors(numerics, fp32=False))
    if judged.holds or not reference.by_optimizer:  # calls of a model are no steps that must be the same
        raise InputError(
            f"the reference took {reference.steps} steps and the candidate {candidate.steps}; record the same number"
        )
    return _result(claimed, Numerics.SEMANTICS, judged, None, before, after)


def _in_two_steps(
    source: NumbersSource, claimed: Numerics, reference: RunNumbers, candidate: RunNumbers
) -> NumbersResult:
    """What is computed, in fp32, where a mistake stands out; then how exactly, as it is."""
    structure, notes = _structure(source)
    if structure is not None and not structure.holds:
        return _result(claimed, Numerics.SEMANTICS, structure, None, reference, candidate, notes)
    precision = judge(reference, candidate, source.floors(Numerics.LOWER_PRECISION, fp32=False))
    if not precision.holds:
        return _result(claimed, Numerics.SEMANTICS, structure, precision, reference, candidate, notes)
    if structure is not None and _same_precision(source, reference, candidate):
        return _result(claimed, Numerics.REASSOCIATION, structure, precision, reference, candidate, notes)
    if claimed is not Numerics.LOWER_PRECISION:  # then where precision is lost has to be told
        precision = _exactly(source, reference, candidate)
    return _result(claimed, Numerics.LOWER_PRECISION, structure, precision, reference, candidate, notes)


def _structure(source: NumbersSource) -> tuple[NumbersJudgement | None, tuple[str, ...]]:
    """None where a script itself makes tensors of lower precision, which nobody can switch off from outside."""
    reference, candidate = source.reference(fp32=True), source.candidate(fp32=True)
    for what, run in (("reference", reference), ("candidate", candidate)):
        low = run.first_low_precision()
        if low is not None:
            dtype = run.tensors[low][0].dtype
            note = f"judged at the precision of {dtype} only: the {what} itself makes {low.kind} {low.name!r} of it"
            return None, (note,)
    return judge(reference, candidate, source.floors(Numerics.REASSOCIATION, fp32=True)), ()


def _same_precision(source: NumbersSource, reference: RunNumbers, candidate: RunNumbers) -> bool:
    """Whether the candidate computes as exactly as its reference does."""
    if reference.is_low_precision:
        low = {key for key, copies in reference.tensors.items() if copies[0].is_low_precision}
        others = {key for key, copies in candidate.tensors.items() if copies[0].is_low_precision}
        return others & reference.tensors.keys() <= low
    return _exactly(source, reference, candidate).holds


def _exactly(source: NumbersSource, reference: RunNumbers, candidate: RunNumbers) -> NumbersJudgement:
    return judge(reference, candidate, source.floors(Numerics.REASSOCIATION, fp32=False))


def _refuse_unless_comparable(reference: RunNumbers, candidate: RunNumbers) -> None:
    if reference.by_optimizer != candidate.by_optimizer:
        which = "reference" if reference.by_optimizer else "candidate"
        raise InputError(f"an optimizer steps in the {which} only; the two programs do not do the same")
    shared = {key for key in reference.tensors if key in candidate.tensors}
    if not shared:
        raise InputError("the two programs have no tensor of the same name; are they the same model?")


def _result(
    claimed: Numerics,
    verdict: Numerics,
    structure: NumbersJudgement | None,
    precision: NumbersJudgement | None,
    reference: RunNumbers,
    candidate: RunNumbers,
    notes: tuple[str, ...] = (),
) -> NumbersResult:
    judged = structure or precision
    kinds = {kind.kind for kind in judged.kinds} if judged else set()
    missing = [kind for kind in KINDS if kind not in kinds and any(key.kind == kind for key in reference.tensors)]
    if missing:
        notes = (*notes, f"not compared: {', '.join(missing)}")
    return NumbersResult(
        claimed=claimed,
        verdict=verdict,
        structure=structure,
        precision=precision,
        curves=curves(reference, candidate),
        steps=reference.steps,
        by_optimizer=reference.by_optimizer,
        notes=(*notes, *dict.fromkeys((*reference.notes, *candidate.notes))),
    )


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
