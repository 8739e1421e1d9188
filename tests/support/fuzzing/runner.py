"""Feeds mutants of one kind of input to what reads it. The promise: an answer or a refusal, soon, on any bytes.

`python -m scripts.fuzz` runs as many as it is told; tests run a sample. The same seed and index always give the same
input.
"""

import multiprocessing
import resource
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

from tests.support.fuzzing.mutate import Mutant

DEADLINE_S = 5.0  # of CPU time: a small input takes a few ms, and the first plan the imports of the planner
SAMPLED = 20  # one in so many is also stored, reported and read strictly
MEMORY_BYTES = 4 << 30
MOST_MORE_KB = 1 << 20  # that the process may grow over one input, at its peak
KEPT_PER_FAILURE = 3


class DeadlineError(BaseException):
    """Reading took too long; no handler of ordinary errors may take it for one."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of input."""

    name: str
    seeds: Callable[[], Sequence[Any]]
    mutant: Callable[[Sequence[Any], int, int], Mutant]
    """Of seeds, for a seed of chance and an index."""
    outcome_of: Callable[..., tuple[str, Iterable[str]]]
    """What becomes of the file at a path, and what was found in it; `sampled` asks for what takes longer. Raises
    whatever breaks the promise."""
    unpacked: Callable[[Mutant], Iterable[bytes]] = lambda _: ()
    """What is inside of a packed input, layer by layer."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A broken promise."""

    key: str  # the same for all inputs that fail in the same place
    trace: str
    input: Mutant
    index: int = -1


@dataclass(kw_only=True)
class Tally:
    """What became of many inputs."""

    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)  # inputs in which something was found
    mutators: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    failures: dict[str, list[Failure]] = field(default_factory=dict)
    slowest: list[tuple[float, int, tuple[str, ...]]] = field(default_factory=list)  # seconds, index, mutators

    def add(self, other: "Tally") -> None:
        self.inputs += other.inputs
        for name in ("outcomes", "reasons", "mutators", "failed"):
            getattr(self, name).update(getattr(other, name))
        for key, failures in other.failures.items():
            both = [*self.failures.get(key, []), *failures]
            self.failures[key] = sorted(both, key=lambda one: len(one.input.data))[:KEPT_PER_FAILURE]
        self.slowest = sorted([*self.slowest, *other.slowest], reverse=True)[:5]


# --- one input --------------------------------------------------------------------------------------------------------


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise DeadlineError inside the block when it takes longer, or waits thirty times as long: others compute too."""

    def overdue(_: int, __: FrameType | None) -> None:
        raise DeadlineError(f"longer than {seconds} s")

    timers = {signal.SIGPROF: (signal.ITIMER_PROF, seconds), signal.SIGALRM: (signal.ITIMER_REAL, 30 * seconds)}
    before = {number: signal.signal(number, overdue) for number in timers}
    for timer, after in timers.values():
        signal.setitimer(timer, after)
    try:
        yield
    finally:
        for number, (timer, _) in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])


def expect(holds: bool, promise: str) -> None:
    if not holds:
        raise AssertionError(f"broken promise: {promise}")


def examine(kind: Kind, made: Mutant, folder: Path, *, sampled: bool = True) -> tuple[str, set[str], Failure | None]:
    """The outcome of one input with its reasons, or how it failed; a deadline must be missed twice."""
    path = folder / made.name
    path.write_bytes(made.data)
    for last_try in (False, True):
        try:
            before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            with deadline(DEADLINE_S):
                outcome, reasons = kind.outcome_of(path, sampled=sampled)
            more_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
            expect(more_kb < MOST_MORE_KB, "an input takes less than 1 GiB of memory")
            return outcome, set(reasons), None
        except DeadlineError as error:
            if last_try:
                return "failed", set(), _failure(error, made)
        except Exception as error:  # noqa: BLE001 (every kind of crash is looked for)
            return "failed", set(), _failure(error, made)
    raise AssertionError("unreachable")


def _failure(error: BaseException, made: Mutant) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "redline" in Path(frame.filename).parts]
    place = f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours else "the checks"
    if isinstance(error, DeadlineError):
        place = place.partition(":")[0]  # where in a file the time was up is chance
    key = f"{type(error).__name__} in {place}" + (f" ({error})" if isinstance(error, AssertionError) else "")
    return Failure(key=key, trace="".join(traceback.format_exception(error)), input=made)


# --- smaller failures -------------------------------------------------------------------------------------------------


def minimised(made: Mutant, still_fails: Callable[[Mutant], bool], budget_s: float = 30.0) -> Mutant:
    """The same failure with as few bytes as removing stretches, ever shorter ones, leads to."""
    data, until = made.data, time.monotonic() + budget_s
    size = max(1, len(data) // 2)
    while size and time.monotonic() < until:
        at, removed = 0, False
        while at < len(data) and time.monotonic() < until:
            shorter = data[:at] + data[at + size :]
            if still_fails(Mutant(name=made.name, data=shorter, how=made.how)):
                data, removed = shorter, True
            else:
                at += size
        if not removed:
            size //= 2
    return Mutant(name=made.name, data=data, how=made.how)


def smaller(kind: Kind, failure: Failure, folder: Path) -> Failure:
    """The failure at its smallest."""
    last = failure

    def still_fails(made: Mutant) -> bool:
        nonlocal last
        found = examine(kind, made, folder)[2]
        if found is None or found.key != failure.key:
            return False
        last = Failure(key=found.key, trace=found.trace, input=made, index=failure.index)
        return True

    for data in kind.unpacked(failure.input):
        if not still_fails(Mutant(name=failure.input.name, data=data, how=failure.input.how)):
            break
    minimised(last.input, still_fails)
    return last


# --- many inputs ------------------------------------------------------------------------------------------------------


def run_share(kind: Kind, seed: int, indices: Sequence[int], folder: Path, at: Callable[[int], object] = id) -> Tally:
    """Examine these inputs; `at` is told the index before each."""
    tally, seeds = Tally(), kind.seeds()
    for index in indices:
        at(index)
        made = kind.mutant(seeds, seed, index)
        started = time.perf_counter()
        outcome, reasons, failure = examine(kind, made, folder, sampled=index % SAMPLED == 0)
        took_s = time.perf_counter() - started
        tally.inputs += 1
        tally.outcomes[outcome] += 1
        tally.reasons.update(reasons)
        tally.mutators.update(set(made.how))
        if failure is not None:
            one = Failure(key=failure.key, trace=failure.trace, input=made, index=index)
            tally.failed[one.key] += 1
            tally.add(Tally(failures={one.key: [one]}))
        if len(tally.slowest) < 5 or took_s > tally.slowest[-1][0]:
            tally.add(Tally(slowest=[(took_s, index, made.how)]))
    return tally


def _work(kind: Kind, seed: int, indices: list[int], current: Any, results: Connection) -> None:
    """One process: sends a tally for every thousand inputs; `current` tells the index it died at, if it does."""
    warnings.simplefilter("error")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def at(index: int) -> None:
        current.value = index

    shared_memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared_memory if shared_memory.is_dir() else None) as name:
        for first in range(0, len(indices), 1000):
            results.send(run_share(kind, seed, indices[first : first + 1000], Path(name), at))
    results.send(None)


class Worker:
    """A process and the inputs that are its to examine; one that crashes goes on after the input that killed it."""

    def __init__(self, kind: Kind, seed: int, indices: Sequence[int]) -> None:
        self._kind, self._seed, self._left = kind, seed, list(indices)
        self._start()

    def _start(self) -> None:
        self._current = multiprocessing.Value("q", -1)
        self.results, sender = multiprocessing.Pipe(duplex=False)
        arguments = (self._kind, self._seed, self._left, self._current, sender)
        self._process = multiprocessing.Process(target=_work, args=arguments, daemon=True)
        self._process.start()
        sender.close()

    def next_tally(self) -> Tally | None:
        """What was found since the last call; None at the end."""
        try:
            received: Tally | None = self.results.recv()
        except EOFError:
            return self._after_crash()
        if received is None:
            self._process.join()
        else:
            del self._left[: received.inputs]
        return received

    def _after_crash(self) -> Tally:
        """The crash as a failure. What the process had not yet reported is examined again, but for the input itself."""
        self._process.join()
        index = int(self._current.value)
        key = f"process died with {self._process.exitcode}"
        made = self._kind.mutant(self._kind.seeds(), self._seed, index)
        failure = Failure(key=key, trace=key, input=made, index=index)
        self._left.remove(index)
        self._start()
        return Tally(inputs=1, outcomes=Counter({"failed": 1}), failed=Counter({key: 1}), failures={key: [failure]})
