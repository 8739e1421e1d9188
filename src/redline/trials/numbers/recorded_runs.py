"""Runs a program with its numbers recorded, in a folder of its own; and a reference whose runs are shared."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from itertools import count
from pathlib import Path

from redline.capture.number_check import STEPS, NumberCheck
from redline.capture.settings import Settings
from redline.capture.supervisor.trial_command import TrialCommand
from redline.capture.supervisor.trial_job import start_trial
from redline.errors import InputError
from redline.numerics import Numerics
from redline.trials.numbers.differences import (
    PERTURBATION,
    PERTURBED_RUNS,
    SUM_PERTURBATION,
    NumberFloors,
    floors_of,
)
from redline.trials.numbers.run_numbers import RunNumbers, read_run

MOST_S = 1800.0


def record_run(
    command: TrialCommand, check: NumberCheck, what: str, *, allow_writes: bool = False, most_s: float = MOST_S
) -> RunNumbers:
    """Run it, and read the numbers that it wrote to `check.folder`. `what` it is, for messages."""
    folder = Path(check.folder)
    folder.mkdir(parents=True, exist_ok=True)
    settings = Settings({
        "capture": False, "timed_after_s": 0.0, "on_trial": bool(command.levers),
        "follow": command.python is not None and not command.python.elastic,
        "folder": check.folder, "numbers": asdict(check),
    })  # fmt: skip
    with start_trial(command, settings, allow_writes=allow_writes) as job:
        ended = job.wait(until_s=time.perf_counter() + most_s)
        if ended is None:
            raise InputError(f"the {what} did not end within {most_s:g} s; give it fewer steps")
        job.raise_if_it_wrote(f"let it write nothing in its first {check.steps} steps")
        code, error = ended.exit_code, job.last_error()
    is_recorded = any(folder.glob("rank-*"))
    if code and not is_recorded:
        raise InputError(f"the {what} failed before its numbers were known, with exit code {code}: {error}")
    if not is_recorded:
        raise InputError(f"the {what} did not import torch, so it has no numbers; check its command")
    run = read_run(folder)
    if code:
        raise InputError(f"the {what} failed with exit code {code} after {run.steps} steps: {error}")
    if not run.steps:
        raise InputError(f"the {what} took no step: no optimizer stepped, and no module was called")
    return run


class NumbersReference:
    """The program that others are held against. It runs when its numbers are first needed, and then not again."""

    def __init__(
        self,
        program: TrialCommand,
        folder: Path,
        *,
        steps: int = STEPS,
        seed: int = 0,
        parallel: int = 1,
        allow_writes: bool = False,
    ) -> None:
        self._candidates = count(1)
        self._program = program
        self._folder = folder
        self._parallel = parallel  # perturbed runs at a time
        self._allow_writes = allow_writes  # to files of the user
        self._plan = NumberCheck(folder="", steps=steps, seed=seed)
        self._known: dict[tuple[bool, Numerics | None, int], RunNumbers] = {}
        self._floors: dict[tuple[Numerics, bool], NumberFloors] = {}

    def recorded(self, *, fp32: bool = False) -> RunNumbers:
        """As it is, or with nothing computed in lower precision; one run is both where it has none."""
        plain = self._run_of(False)
        return self._run_of(True) if fp32 and plain.is_low_precision else plain

    def floors(self, numerics: Numerics, *, fp32: bool = False) -> NumberFloors:
        fp32 = fp32 and self.recorded().is_low_precision
        if (numerics, fp32) not in self._floors:
            reference = self._run_of(fp32)
            with ThreadPoolExecutor(self._parallel) as pool:
                perturbed = list(pool.map(partial(self._run_of, fp32, numerics), range(1, PERTURBED_RUNS + 1)))
            self._floors[numerics, fp32] = floors_of(reference, perturbed, numerics)
        return self._floors[numerics, fp32]

    def candidate(self, program: TrialCommand, *, fp32: bool = False) -> RunNumbers:
        """The numbers of a program that is to do the same."""
        folder = self._folder / f"candidate-{next(self._candidates)}"
        check = replace(self._plan, folder=str(folder.resolve()), fp32=fp32)
        return record_run(program, check, "candidate", allow_writes=self._allow_writes)

    def _run_of(self, fp32: bool, numerics: Numerics | None = None, number: int = 0) -> RunNumbers:
        key = fp32, numerics, number
        if key not in self._known:
            self._known[key] = self._made(self._folder / folder_name(fp32, numerics, number), *key)
        return self._known[key]

    def _made(self, folder: Path, fp32: bool, numerics: Numerics | None, number: int) -> RunNumbers:
        check = replace(self._plan, folder=str(folder.resolve()), fp32=fp32)
        if numerics is not None:
            eps = PERTURBATION[numerics]
            check = replace(check, eps=eps, sum_eps=SUM_PERTURBATION, perturbation=number)
        what = "reference" if numerics is None else "perturbed reference"
        return record_run(self._program, check, what, allow_writes=self._allow_writes)


def folder_name(fp32: bool, numerics: Numerics | None = None, number: int = 0) -> str:
    """Of one run of a reference, in the folder of all."""
    kind = f"{numerics}-{number}".replace(" ", "-") if numerics else "run"
    return f"{kind}-fp32" if fp32 else kind
