"""Runs a program with its numbers recorded, in a folder of its own; and a reference whose runs are shared."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path

from redline.errors import InputError
from redline.launch.inside.trial.file_guard import EXIT_CODE as FILE_GUARD_EXIT
from redline.launch.number_check import STEPS, NumberCheck
from redline.launch.outside.command import Command, command
from redline.launch.outside.command_line import understood
from redline.launch.outside.scratch_folder import make_scratch
from redline.launch.outside.supervise import facts_of
from redline.launch.settings import Settings, environment_for
from redline.launch.shared_state import SharedState
from redline.numerics import Numerics
from redline.trials.numbers.floors import (
    PERTURBATION,
    PERTURBED_RUNS,
    SUM_PERTURBATION,
    NumberFloors,
    floors_of,
)
from redline.trials.numbers.run_numbers import RunNumbers, read_run

_OFFSPRING = 64  # ranks that a script may start by itself
_ERROR = re.compile(r"(?:\[rank\d+\]: ?)?((?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)\b.*)")
MOST_S = 1800.0


@dataclass(frozen=True, kw_only=True)
class CheckedProgram:
    """A program whose numbers are recorded."""

    command: Command
    levers: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Beyond that of this process."""
    folder: Path = field(default_factory=Path.cwd)
    """Where a user would start it."""
    allow_writes: bool = False
    """To files of that folder."""

    @classmethod
    def typed(cls, words: Sequence[str], **others: object) -> CheckedProgram:
        """As one types it: `python train.py`, `torchrun --nproc-per-node 2 train.py`."""
        parts = understood((), words)
        return cls(command=command(parts.torchrun, parts.job, parts.of_python), **others)  # type: ignore[arg-type]


def record_run(program: CheckedProgram, check: NumberCheck, what: str, most_s: float = MOST_S) -> RunNumbers:
    """Run it in a folder of its own below `check.folder`, and read its numbers. `what` it is, for messages."""
    folder = Path(check.folder)
    folder.mkdir(parents=True, exist_ok=True)
    with make_scratch(program.folder) as scratch:
        code = _run(program, check, scratch, folder, most_s)
    error = _last_error(folder / "stderr.txt")
    if code is None:
        raise InputError(f"the {what} did not end within {most_s:g} s; give it fewer steps")
    if code and not list(folder.glob("rank-*")):
        raise InputError(f"the {what} failed before its numbers were known, with exit code {code}: {error}")
    if not list(folder.glob("rank-*")):
        raise InputError(f"the {what} did not import torch, so it has no numbers; check its command")
    run = read_run(folder)
    if code:
        raise InputError(f"the {what} failed with exit code {code} after {run.steps} steps: {error}")
    if not run.steps:
        raise InputError(f"the {what} took no step: no optimizer stepped, and no module was called")
    return run


def _run(program: CheckedProgram, check: NumberCheck, scratch: Path, folder: Path, most_s: float) -> int | None:
    """Its exit code; None where it did not end in time."""
    job = program.command
    slots = job.processes * (1 + job.restarts) + (0 if job.elastic else _OFFSPRING)
    shared = SharedState.make(slots)
    settings = Settings({
        "board": shared.path, "slots": slots, "elastic": job.elastic, "local_size": job.processes,
        "follow": not job.elastic, "capture": False, "timed_after_s": 0.0, "levers": program.levers,
        "on_trial": bool(program.levers), "scratch": str(scratch),
        "guarded": [] if program.allow_writes else [str(program.folder.resolve())],
        "folder": str(folder),
        "numbers": check.to_settings(),
    })  # fmt: skip
    inherited = {**os.environ, "PYTHONHASHSEED": "0", **program.environment}
    with (folder / "stdout.txt").open("wb") as out, (folder / "stderr.txt").open("wb") as err:
        process = subprocess.Popen(
            job.arguments,
            cwd=scratch,
            env=environment_for(inherited, settings),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,  # so that all it started can be ended with it
        )
        try:
            code = process.wait(most_s)
            if code == FILE_GUARD_EXIT:
                _tell_what_it_wrote(shared, program)
            return code
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            shared.close()


def _tell_what_it_wrote(shared: SharedState, program: CheckedProgram) -> None:
    facts = (facts_of(shared.slot(number)) for number in range(shared.slots))
    wrote = next((known["wrote"] for known in facts if known.get("wrote")), None)
    if wrote is not None:
        raise InputError(
            f"{program.command.script}: it was about to write {wrote}, and it is run several times; "
            "let it write nothing in its first steps, or allow it (`allow_writes=True`)"
        )


def _last_error(path: Path) -> str:
    """The last line of a traceback; else the last line."""
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    for line in reversed(lines):
        told = _ERROR.fullmatch(line)
        if told and "ChildFailedError" not in line:
            return told[1][:300]
    return lines[-1][:300] if lines else "it printed no error"


class NumbersReference:
    """The program that others are held against. It runs when its numbers are first needed, and then not again."""

    def __init__(
        self, program: CheckedProgram, folder: Path, *, steps: int = STEPS, seed: int = 0, parallel: int = 1
    ) -> None:
        self._candidates = count(1)
        self._program = program
        self._folder = folder
        self._parallel = parallel  # perturbed runs at a time
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

    def candidate(self, program: CheckedProgram, *, fp32: bool = False) -> RunNumbers:
        """The numbers of a program that is to do the same."""
        folder = self._folder / f"candidate-{next(self._candidates)}"
        return record_run(program, replace(self._plan, folder=str(folder.resolve()), fp32=fp32), "candidate")

    def _run_of(self, fp32: bool, numerics: Numerics | None = None, number: int = 0) -> RunNumbers:
        key = fp32, numerics, number
        if key not in self._known:
            self._known[key] = self._made(self._folder / folder_name(fp32, numerics, number), *key)
        return self._known[key]

    def _made(self, folder: Path, fp32: bool, numerics: Numerics | None, number: int) -> RunNumbers:
        check = replace(self._plan, folder=str(folder.resolve()), fp32=fp32)
        if numerics is None:
            return record_run(self._program, check, "reference")
        eps = PERTURBATION[numerics]
        check = replace(check, eps=eps, sum_eps=SUM_PERTURBATION, perturbation=number)
        return record_run(self._program, check, "perturbed reference")


def folder_name(fp32: bool, numerics: Numerics | None = None, number: int = 0) -> str:
    """Of one run of a reference, in the folder of all."""
    kind = f"{numerics}-{number}".replace(" ", "-") if numerics else "run"
    return f"{kind}-fp32" if fp32 else kind
