"""Runs `redline tune` as a user does, and reads what it settled on."""

import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

TUNED = "tuned.toml"
_BEYOND = 1.5  # times the budget, after which it is taken to hang
_START_S = 300.0  # that may pass besides: the last trial is not cut short


class TuneError(Exception):
    """It gave nothing that could be timed."""


@dataclass(frozen=True, kw_only=True)
class TuneRun:
    """What a search gave."""

    levers: tuple[str, ...]
    minutes: float


def tune_words(job: Sequence[str], record: Path, budget_minutes: int) -> list[str]:
    """The command line of a search."""
    options = ["--budget", str(budget_minutes), "--record", str(record)]
    return [sys.executable, "-m", "redline", "tune", *options, "--", *job]


def run_tune(job: Sequence[str], record: Path, budget_minutes: int) -> TuneRun:
    """TuneError where it fails, hangs, or leaves a file that says nothing."""
    record.parent.mkdir(parents=True, exist_ok=True)
    log_path = record.with_suffix(".log")
    started_s = perf_counter()
    with log_path.open("w", encoding="utf-8") as log:
        try:
            done = subprocess.run(
                tune_words(job, record, budget_minutes),
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=60 * budget_minutes * _BEYOND + _START_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TuneError(f"redline tune had not ended after {(perf_counter() - started_s) / 60:.0f} min") from None
    minutes = (perf_counter() - started_s) / 60
    if done.returncode:
        raise TuneError(f"redline tune ended with {done.returncode}: {_last_line(log_path)}")
    return TuneRun(levers=kept_levers(record), minutes=minutes)


def kept_levers(record: Path) -> tuple[str, ...]:
    """None where a search that ended well left no file: nothing was faster and right."""
    path = record / TUNED
    return levers_in(path) if path.exists() else ()


def levers_in(path: Path) -> tuple[str, ...]:
    """Those that a search kept, in their order."""
    try:
        levers = tomllib.loads(path.read_text(encoding="utf-8"))["levers"]
    except (OSError, KeyError, ValueError) as error:
        raise TuneError(f"{path}: no levers in it: {error!r}") from error
    if not isinstance(levers, list) or not all(isinstance(lever, str) for lever in levers):
        raise TuneError(f"{path}: its levers are no list of words: {levers!r}")
    return tuple(levers)


def _last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
