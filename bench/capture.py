"""Run one twin of a case, and diagnose it: a job under `redline run`, a timeline from the generator."""

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from bench.cases import FRAMEWORK_STYLES, HERE, ROOT, Case, specs_of
from redline.cli import main
from tests.support.traces.synthetic import Truth, write_job

Twin = Literal["flawed", "healthy"]
TWINS: tuple[Twin, Twin] = ("flawed", "healthy")

TIMEOUT_S = 400
WARM_UP_STEPS = 4
LEAST_WINDOW = 4
STEPS_BEYOND = 4  # the window: a job does not end with it
LONG_WINDOW = 8  # of a cause that shows in some steps only
FRAMEWORKS_VARIABLE = "REDLINE_FRAMEWORKS_PYTHON"
FRAMEWORKS = ("transformers", "diffusers", "accelerate", "lightning")

Record = dict[str, Any]


class CannotRunError(Exception):
    """A twin that did not run, or was not captured; the message says why."""


def python_of(case: Case) -> str:
    """The interpreter for a job; frameworks have an environment of their own."""
    if case.label.style not in FRAMEWORK_STYLES:
        return sys.executable
    python = os.environ.get(FRAMEWORKS_VARIABLE)
    if not python:
        raise CannotRunError(
            f"{FRAMEWORKS_VARIABLE} names no Python with transformers, diffusers, accelerate and lightning"
        )
    return python


def environment_of(case: Case) -> dict[str, str]:
    """That of a job: it finds what jobs share, and does not look for models on the network."""
    paths = dict.fromkeys(map(str, (case.folder, HERE, ROOT)))
    found = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*paths, *([found] if found else [])]),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }


def window_of(case: Case) -> tuple[int, int]:
    """Steps before the window, and in it: twice the period of a cause that does not show in every step."""
    pattern = case.label.pattern
    if pattern == "first steps":
        return 0, LONG_WINDOW
    if pattern == "some steps":
        return WARM_UP_STEPS, LONG_WINDOW
    return WARM_UP_STEPS, max(LEAST_WINDOW, 2 * case.label.period)


def diagnosed_job(case: Case, twin: Twin, folder: Path, beside: int = 0) -> Record:
    """The diagnosis of a job's twin, captured into `folder`, beside so many other processes that want a core each."""
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    run.parent.mkdir(parents=True, exist_ok=True)
    after, steps = window_of(case)
    ranks = case.label.ranks
    words = [python_of(case), "-m", "redline", "run", "-o", run, "--steps", steps, "--after", after, "--timed-after", 0]
    words += ["--standalone", "--nproc-per-node", ranks] if ranks > 1 else []
    words += ["--", case.path, twin, "--steps", after + steps + STEPS_BEYOND]
    with _busy_processes(beside):
        code, output = finished([str(word) for word in words], case, TIMEOUT_S)
    (folder / "output.txt").write_text(output[-20_000:], encoding="utf-8")
    if code:
        raise CannotRunError(f"the {twin} twin ended with {code}: {_last_line(output)}")
    return diagnosis_of(run, folder / "diagnosis.json")


@contextlib.contextmanager
def _busy_processes(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def diagnosed_timeline(case: Case, twin: Twin, folder: Path) -> tuple[Record, Truth]:
    """The diagnosis of a timeline's twin, written into `folder`, and what is true of it."""
    traces = folder / "traces"
    shutil.rmtree(traces, ignore_errors=True)
    truth = write_job(specs_of(case)(twin == "flawed"), traces)
    return diagnosis_of(traces, folder / "diagnosis.json"), truth


def diagnosis_of(traces: Path, target: Path) -> Record:
    """What `redline diagnose --json` says."""
    with contextlib.redirect_stdout(sys.stderr):
        code = main(["diagnose", "-q", "--jobs", "1", "--no-cache", "--force", "-o", str(target), str(traces)])
    if code:
        raise CannotRunError(f"`redline diagnose {traces}` ended with {code}")
    record: Record = json.loads(target.read_text(encoding="utf-8"))
    return record


def finished(words: list[str], case: Case, timeout_s: float) -> tuple[int, str]:
    """Run a command to its end; its exit code, and all that it printed. Past the time limit its group is ended."""
    process = subprocess.Popen(
        [*_on_cores(case.label.cores_needed), *words],
        env=environment_of(case),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _end(process.pid, case)
        process.communicate()
        raise CannotRunError(f"no end after {timeout_s:.0f} s: {' '.join(words[-3:])}") from None
    return process.returncode, output


def _end(group: int, case: Case) -> None:
    """The group, and ranks of torchrun, which are in groups of their own and hold on to the output."""
    os.killpg(group, signal.SIGKILL)
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(case.path).encode() in command.read_bytes().split(b"\0"):
                os.kill(int(command.parent.name), signal.SIGKILL)


def _on_cores(number: int | None) -> list[str]:
    """What keeps a command to so many of the cores that are allowed here: others for each worker of the bench."""
    allowed = sorted(os.sched_getaffinity(0))
    if number is None or number >= len(allowed) or shutil.which("taskset") is None:
        return []
    worker = multiprocessing.current_process()._identity
    first = worker[-1] * number if worker else 0
    return ["taskset", "-c", ",".join(str(allowed[(first + place) % len(allowed)]) for place in range(number))]


def _last_line(output: str) -> str:
    return next((line for line in reversed(output.splitlines()) if line.strip()), "no output")
