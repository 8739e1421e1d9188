"""Runs the check of numbers on its cases, keeps each outcome as a file, and counts what was found."""

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import RLock

from bench.number_cases.case import NumbersCase
from bench.number_cases.registry import MODELS
from redline.capture.supervisor.trial_command import TrialCommand, trial_command
from redline.errors import RedlineError
from redline.numerics import Numerics
from redline.trials.numbers.check import NumbersResult, check_numbers
from redline.trials.numbers.differences import NumberFloors
from redline.trials.numbers.recorded_runs import NumbersReference
from redline.trials.numbers.run_numbers import RunNumbers

LOSS_CURVES = (0.01, 0.001)
NORM_CURVES = (0.01, 0.0001)


@dataclass(frozen=True, kw_only=True)
class NumbersOutcome:
    """What the check said of a case."""

    case: str
    holds: bool | None  # None where it could not be checked
    verdict: str
    score: float
    first: tuple[str, str] | None  # kind and name of the first tensor that deviates
    loss_curve: float
    norm_curve: float
    error: str = ""


def score_cases(cases: Sequence[NumbersCase], out: Path, jobs: int) -> dict[str, NumbersOutcome]:
    """All outcomes; those that were kept are not made again."""
    out.mkdir(parents=True, exist_ok=True)
    known = {case.name: read for case in cases if (read := _kept(out, case)) is not None}
    missing = [case for case in cases if case.name not in known]
    groups: dict[tuple[str, str], list[NumbersCase]] = {}
    for case in missing:
        groups.setdefault((case.model, case.reference), []).append(case)
    with TemporaryDirectory() as folder:
        references = {key: _Reference(*key, Path(folder) / f"{at}") for at, key in enumerate(groups)}
        with ThreadPoolExecutor(jobs) as pool:
            outcomes = pool.map(partial(_scored, references, out), missing)
            known |= {case.name: outcome for case, outcome in zip(missing, outcomes, strict=True)}
    return known


class _Reference(NumbersReference):
    """One reference that several threads ask; the first of them makes its runs, and the others wait for them."""

    def __init__(self, model: str, variant: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._lock = RLock()
        super().__init__(_program(model, variant), folder)

    def recorded(self, *, fp32: bool = False) -> RunNumbers:
        with self._lock:
            return super().recorded(fp32=fp32)

    def floors(self, numerics: Numerics, *, fp32: bool = False) -> NumberFloors:
        with self._lock:
            return super().floors(numerics, fp32=fp32)


def _program(model: str, variant: str) -> TrialCommand:
    known = MODELS[model]
    return trial_command(known.command(variant), folder=known.script.parent)


def _scored(references: Mapping[tuple[str, str], _Reference], out: Path, case: NumbersCase) -> NumbersOutcome:
    reference = references[case.model, case.reference]
    try:
        result = check_numbers(reference, _program(case.model, case.variant), claimed=Numerics(case.claimed))
        outcome = _outcome(case, result)
    except RedlineError as error:
        nothing = float("nan")
        outcome = NumbersOutcome(
            case=case.name, holds=None, verdict="", score=nothing, first=None, loss_curve=nothing, norm_curve=nothing,
            error=str(error),
        )  # fmt: skip
    _file(out, case).write_text(json.dumps(asdict(outcome), indent=1))
    return outcome


def _outcome(case: NumbersCase, result: NumbersResult) -> NumbersOutcome:
    first = result.first
    return NumbersOutcome(
        case=case.name,
        holds=result.holds,
        verdict=str(result.verdict),
        score=result.score,
        first=(first.key.kind, first.key.name) if first else None,
        loss_curve=result.curves.loss,
        norm_curve=result.curves.gradient_norm,
    )


def _file(out: Path, case: NumbersCase) -> Path:
    return out / f"{case.name}.json".replace(": ", "--").replace(" ", "-").replace(",", "")


def _kept(out: Path, case: NumbersCase) -> NumbersOutcome | None:
    path = _file(out, case)
    if not path.exists():
        return None
    known = json.loads(path.read_text())
    return NumbersOutcome(**{**known, "first": tuple(known["first"]) if known["first"] else None})


def is_found(outcome: NumbersOutcome) -> bool:
    return outcome.holds is False


def is_first_right(case: NumbersCase, outcome: NumbersOutcome) -> bool:
    """Whether the first tensor that was named is one of those where the bug first shows."""
    if outcome.first is None:
        return False
    kind, name = outcome.first
    name = name.partition("#")[0]  # which of several calls of a module it was
    if kind == "loss":  # there is one
        name = ""
    if kind == "unclipped gradient":
        kind = "gradient"
    if kind == "dropout":  # that of a module, where a mask is another one
        kind = "activation"
    if kind == "start" or name.endswith(("running_mean", "running_var")):  # what a module has, before its output
        kind, name = "activation", name.rpartition(".")[0]
    return any(place.kind == kind and fnmatchcase(name, place.name) for place in case.first)


@dataclass(frozen=True, kw_only=True)
class NumbersTotals:
    """Counts over some cases."""

    bugs: int
    found: int
    first_right: int  # of those found
    harmless: int
    alarms: int
    unchecked: int
    loss_found: tuple[int, ...]  # by curves of the loss, within each of LOSS_CURVES
    norm_found: tuple[int, ...]
    loss_alarms: tuple[int, ...]
    norm_alarms: tuple[int, ...]


def totals(cases: Iterable[NumbersCase], outcomes: Mapping[str, NumbersOutcome]) -> NumbersTotals:
    pairs = [(case, outcomes[case.name]) for case in cases]
    bugs = [(case, outcome) for case, outcome in pairs if case.kind == "bug"]
    harmless = [outcome for case, outcome in pairs if case.kind == "harmless"]
    found = [(case, outcome) for case, outcome in bugs if is_found(outcome)]
    return NumbersTotals(
        bugs=len(bugs),
        found=len(found),
        first_right=sum(is_first_right(case, outcome) for case, outcome in found),
        harmless=len(harmless),
        alarms=sum(map(is_found, harmless)),
        unchecked=sum(outcome.holds is None for _, outcome in pairs),
        loss_found=tuple(sum(outcome.loss_curve > limit for _, outcome in bugs) for limit in LOSS_CURVES),
        norm_found=tuple(sum(outcome.norm_curve > limit for _, outcome in bugs) for limit in NORM_CURVES),
        loss_alarms=tuple(sum(outcome.loss_curve > limit for outcome in harmless) for limit in LOSS_CURVES),
        norm_alarms=tuple(sum(outcome.norm_curve > limit for outcome in harmless) for limit in NORM_CURVES),
    )
