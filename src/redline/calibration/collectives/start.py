"""Starts the ranks with torchrun, waits for them, and reads what they leave. torch is not imported here."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from redline.calibration.calibration_record import Collectives
from redline.errors import InputError, RedlineError, UsageError

if TYPE_CHECKING:
    from typing import IO


@dataclass(frozen=True, kw_only=True)
class OperationExample:
    """One operation, on tensors small enough to be read."""

    operation: str
    before: tuple[tuple[int, ...], ...]  # by rank; empty where a rank gives nothing
    after: tuple[tuple[int, ...] | None, ...]
    """By rank; empty where a rank gets nothing, None where what its tensor holds is not defined."""
    correct: bool  # whether all of it is what the definition says


RESULT = "result.json"
_FAILURES = "failed-*.json"


@dataclass(frozen=True, kw_only=True)
class RankFailure:
    """Why a rank ended early."""

    rank: int
    at_ns: int  # since the epoch: where one rank fails, others lose their partner and fail after it
    line: str
    is_usage: bool = False  # what the user asked for makes no sense


def failure_path(folder: Path, rank: int) -> Path:
    return folder / _FAILURES.replace("*", str(rank))


def failures(folder: Path) -> Iterator[RankFailure]:
    import msgspec

    failures_read = [msgspec.json.decode(path.read_bytes(), type=RankFailure) for path in folder.glob(_FAILURES)]
    yield from sorted(failures_read, key=lambda failure: failure.at_ns)


T = TypeVar("T")
_MODULE = "redline.calibration.collectives.worker"
_SECONDS, _QUICK_SECONDS, _JOIN_SECONDS = 50.0, 8.0, 180.0
_END_S = 40.0  # torchrun kills ranks that do not end within 30 s; they have sessions of their own, so we cannot
_KEPT_LINES = 200
_MEETING = ("--nnodes", "--rdzv", "--master", "--node-rank", "--standalone")  # options that say where ranks meet
_OF_TORCHRUN = re.compile(r"[WIE]\d{4} |W\d{4}|\[W\d{3,4} ")  # how its log lines begin
_FAILED = re.compile(r"E\d{4} |Traceback ")
_SIGNAL = re.compile(r"Signal \d+ \((SIG\w+)\)")
_ERROR = re.compile(r"(?:[\w.]*Error|torchrun: error|run\.py: error)\b.*: *\S")


def measure_collectives(
    torchrun: Sequence[str], *, quick: bool, seconds: float | None = None, left_s: float = inf
) -> Collectives | None:
    """What the ranks measured; None on a node that does not hold the first rank. `torchrun` are options of torchrun.

    Starting ranks and checking their health takes about as long as measuring; all together ends within `left_s`.
    """
    usual_s = seconds if seconds is not None else _QUICK_SECONDS if quick else _SECONDS
    words = ["--seconds", f"{min(usual_s, left_s / 3):g}", *(["--quick"] if quick else [])]
    words += ["--join-seconds", f"{min(_JOIN_SECONDS, left_s):g}"]
    return _left_by_ranks(torchrun, words, Collectives, left_s)


def show_collectives(torchrun: Sequence[str]) -> tuple[OperationExample, ...] | None:
    """What each operation does to small tensors; None on a node that does not hold the first rank."""
    return _left_by_ranks(torchrun, ["--show"], tuple[OperationExample, ...])


def _left_by_ranks(torchrun: Sequence[str], words: Sequence[str], kind: type[T], left_s: float = inf) -> T | None:
    import msgspec

    with tempfile.TemporaryDirectory(prefix="redline-") as name:
        folder = Path(name)
        code, tail, is_late = _run(command(torchrun, folder, words), left_s)
        if is_late:
            hint = "give more with `budget=...`, or leave collectives out with `only=...`"
            raise InputError(f"the collectives could not be measured: they did not end within {left_s:.0f} s\n{hint}")
        if code:
            raise failure(folder, tail, code)
        path = folder / RESULT
        return msgspec.json.decode(path.read_bytes(), type=kind) if path.exists() else None


def command(torchrun: Sequence[str], folder: Path, words: Sequence[str]) -> list[str]:
    """Ranks of one machine meet at a free port, unless the user says where."""
    is_said = any(word.replace("_", "-").startswith(_MEETING) for word in torchrun)
    options = [*torchrun] if is_said else ["--standalone", *torchrun]
    return [sys.executable, "-m", "torch.distributed.run", *options, "-m", _MODULE, "--folder", str(folder), *words]


def _environment() -> Mapping[str, str]:
    """One thread per rank and few warnings, as torchrun would choose, but without its saying so; the user's own win."""
    return {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"} | os.environ


def _run(words: Sequence[str], left_s: float) -> tuple[int, Sequence[str], bool]:
    """The exit code, the last lines of what was said, and whether it took too long. Ctrl-C ends the ranks, then us."""
    with (
        _signals_interrupt(),
        subprocess.Popen(
            words,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # so that Ctrl-C reaches it once, from us
        ) as started,
    ):
        late: list[bool] = []

        def give_up() -> None:
            late.append(True)
            _end(started)

        timer = threading.Timer(min(left_s, threading.TIMEOUT_MAX), give_up)
        timer.daemon = True
        timer.start()
        try:
            assert started.stdout is not None
            tail = _handed_on(started.stdout)
            return started.wait(), tail, bool(late)
        except BaseException:
            _end(started)
            raise
        finally:
            timer.cancel()


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """What else ends programs ends us as Ctrl-C does, so that no rank lives on. What is ignored stays so."""

    def stop(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    is_main = threading.current_thread() is threading.main_thread()
    ends = (signal.SIGTERM, signal.SIGHUP) if is_main else ()
    caught = [number for number in ends if signal.getsignal(number) is signal.SIG_DFL]
    for number in caught:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)


def _end(started: subprocess.Popen[str]) -> None:
    started.send_signal(signal.SIGTERM)  # which torchrun hands on: Ctrl-C would not reach ranks that wait in C++ code
    try:
        started.wait(_END_S)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def _handed_on(output: IO[str]) -> Sequence[str]:
    """What ranks say goes to stderr as it comes; what torchrun says of itself and of their failure is only kept."""
    tail: deque[str] = deque(maxlen=_KEPT_LINES)
    is_over = False
    for line in output:
        tail.append(line.rstrip())
        is_over = is_over or _FAILED.match(line) is not None
        if not is_over and not _OF_TORCHRUN.match(line):
            sys.stderr.write(line)
    return list(tail)


def failure(folder: Path, tail: Sequence[str], code: int) -> RedlineError:
    """The rank that failed first, in its own words; otherwise what torchrun says."""
    for first in failures(folder):
        if first.is_usage:
            return UsageError(f"calibrate: {first.line}")
        return InputError(f"the collectives could not be measured: rank {first.rank} failed\n{first.line}")
    cause = tail[next((at for at, line in enumerate(tail) if line.startswith("Root Cause")), len(tail)) :]
    killed = next((match[1] for line in cause if (match := _SIGNAL.search(line))), None)
    if killed is not None:
        return InputError(f"the collectives could not be measured: a rank was ended by {killed}")
    said = next((line.strip() for line in reversed(tail) if _ERROR.search(line)), f"exit code {code}")
    return InputError(f"the collectives could not be measured: torchrun failed\n{said[:300]}")
