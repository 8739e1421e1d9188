"""Feeds mutants of real traces to the reader and checks its promise: an answer or an InputError, soon, on any bytes.

    python scripts/fuzz_reader.py --inputs 1000000 --jobs 2 --seed 1 --save-failures failures

Prints the rate, what became of the inputs, the reasons of the reading ledger that were hit, and each distinct failure
made as small as it gets. The same seed and index always give the same input; `--first` continues where a run ended.
"""

import argparse
import gzip
import json
import multiprocessing
import os
import resource
import signal
import sys
import tarfile
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType
from typing import Any

from redline.errors import InputError
from redline.report.inspect import json as inspect_json
from redline.report.inspect import text as inspect_text
from redline.testing.damage.corpus import seed_trace
from redline.testing.mutate import Mutant, excerpt, mutant
from redline.testing.synthetic import JobSpec, rank_text, simulate_job
from redline.timeline.timeline import TABLES, Timeline
from redline.trace import store
from redline.trace.inflate import WRAPPERS_DEEP, contents
from redline.trace.job import JobOptions, read_job
from redline.trace.merge import write_merged
from redline.trace.reader import ReadOptions, read_file
from redline.trace.summary import summarise

ROOT = Path(__file__).resolve().parents[1]
DEADLINE_S = 2.0  # a small input takes a few ms
SAMPLED = 20  # one in so many is also stored, reported and read strictly
MEMORY_BYTES = 4 << 30
KEPT_PER_FAILURE = 3
LARGEST_TRACE_BYTES = 500_000  # of a packed real trace that is worth unpacking for a seed


class DeadlineError(BaseException):
    """Reading took too long; no handler of ordinary errors may take it for one."""


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
    reasons: Counter[str] = field(default_factory=Counter)  # inputs in whose ledger a reason stands
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


# --- seeds ------------------------------------------------------------------------------------------------------------


def own_seeds() -> list[bytes]:
    """Small traces from what the repository holds: recordings, the seed of the damage corpus, a synthetic job."""
    recorded = sorted((ROOT / "tests" / "data" / "recorded").glob("*.json.gz"))
    wholes = [gzip.decompress(path.read_bytes()) for path in recorded]
    spec = JobSpec(ranks=2, steps=2, layers=1, with_stacks=True)
    wholes += [seed_trace(), "".join(rank_text(simulate_job(spec), 1)).encode()]
    return [excerpt(whole, size) for whole in wholes for size in (1500, 4000)]


def real_seeds() -> list[bytes]:
    """Small traces cut from published ones, where their folder is at hand."""
    folder = Path(os.environ.get("REDLINE_TRACES") or ROOT.parent / "shared" / "traces")
    seeds = []
    for path in sorted(folder.rglob("*.json.gz")):
        if path.stat().st_size <= LARGEST_TRACE_BYTES:
            try:
                seeds.append(excerpt(gzip.decompress(path.read_bytes()), 3000))
            except ValueError:
                continue  # already damaged as it was published
    return [seed for seed in seeds if len(seed) < 16_000]


# --- one input --------------------------------------------------------------------------------------------------------


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise DeadlineError inside the block when it takes longer."""

    def overdue(_: int, __: FrameType | None) -> None:
        raise DeadlineError(f"longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, overdue)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def outcome_of(path: Path, *, sampled: bool) -> tuple[str, set[str]]:
    """What reading gives and the reasons in its ledger; raises whatever breaks the promise."""
    try:
        reading = read_file(path)
    except InputError as error:
        return f"refused: {type(error).__name__}", set()
    expect(len(reading.timelines) > 0, "a file without any timeline is refused")
    for timeline in reading.timelines:
        check_timeline(timeline)
    if sampled:
        check_sampled(path, reading.timelines)
    reasons = {problem.reason.code for timeline in reading.timelines for problem in timeline.source.problems}
    return "read" if not reading.failures else "read in part", reasons


def check_timeline(timeline: Timeline) -> None:
    """What every timeline promises, and what follows from it for its summary."""
    timeline.self_check()
    first_ns, last_ns = timeline.window_ns
    summary = summarise(timeline)
    expect(first_ns <= last_ns and summary.window_ns == last_ns - first_ns, "a window ends after it begins")
    expect(0 <= summary.busy_ns <= summary.window_ns, "a device is busy inside the window only")
    expect(0 <= summary.communication_ns <= summary.window_ns, "communication is inside the window")
    expect(all(step_ns >= 0 for step_ns in summary.step_ns), "no step is negative")
    expect(all(problem.count > 0 for problem in timeline.source.problems), "the ledger holds what happened only")


def check_sampled(path: Path, timelines: tuple[Timeline, ...]) -> None:
    """Timelines can be stored, reported and merged, and a strict reading agrees or refuses."""
    kept = path.parent / "kept.timelines"
    if is_text(path.name) and all(is_text(timeline.source.member) for timeline in timelines):
        store.save(kept, timelines, "key")
        for before, after in zip(timelines, store.load(kept, "key"), strict=True):
            expect(same_timeline(before, after), "a stored timeline comes back the same")
    job = read_job([path], JobOptions(jobs=1, use_cache=False))
    record = json.loads(inspect_json.render(job).encode(errors="backslashreplace"))
    expect(len(record["ranks"]) == len(timelines), "every timeline is a rank of the report")
    inspect_text.render(job).encode(errors="backslashreplace")
    with suppress(InputError):
        merged = path.parent / "merged.json"
        write_merged(job, lambda _, number: timelines[number], merged, budget_bytes=1 << 30, force=True)
    with suppress(InputError):
        strict = read_file(path, ReadOptions(strict=True, step_regex="a"))
        expect(len(strict.timelines) <= len(timelines), "a strict reading gives no other timelines")


def is_text(name: str) -> bool:
    """Whether a name of a file can be encoded; the command line shows what cannot as escapes."""
    return name.encode(errors="replace").decode() == name


def same_timeline(one: Timeline, other: Timeline) -> bool:
    tables = all(
        array.dtype == getattr(other, table).columns()[name].dtype
        and bool((array == getattr(other, table).columns()[name]).all())
        for table in TABLES
        for name, array in getattr(one, table).columns().items()
    )
    plain = ("origin", "rank", "rank_origin", "zero_ns", "texts", "lanes", "step_anchor", "metadata", "source")
    return tables and all(getattr(one, name) == getattr(other, name) for name in plain)


def expect(holds: bool, promise: str) -> None:
    if not holds:
        raise AssertionError(f"broken promise: {promise}")


def examine(made: Mutant, folder: Path, *, sampled: bool = True) -> tuple[str, set[str], Failure | None]:
    """The outcome of one input with its reasons, or how it failed; a deadline must be missed twice."""
    path = folder / made.name
    path.write_bytes(made.data)
    for last_try in (False, True):
        try:
            with deadline(DEADLINE_S):
                return *outcome_of(path, sampled=sampled), None
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


def smaller(failure: Failure, folder: Path) -> Failure:
    """The failure at its smallest."""
    last = failure

    def still_fails(made: Mutant) -> bool:
        nonlocal last
        found = examine(made, folder)[2]
        if found is None or found.key != failure.key:
            return False
        last = Failure(key=found.key, trace=found.trace, input=made, index=failure.index)
        return True

    for data in unpacked(failure.input):
        if not still_fails(Mutant(name=failure.input.name, data=data, how=failure.input.how)):
            break
    minimised(last.input, still_fails)
    return last


def unpacked(made: Mutant) -> Iterator[bytes]:
    """What the reader finds inside a packed input, layer by layer."""
    data = made.data
    for _ in range(WRAPPERS_DEEP):
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            try:
                with deadline(DEADLINE_S):
                    inner = [content.stream.read(1 << 24) for content in contents(Path(file.name))]
            except (InputError, tarfile.TarError, DeadlineError):
                return
        if not inner or inner[0] == data:
            return
        data = inner[0]
        yield data


# --- many inputs ------------------------------------------------------------------------------------------------------


def run_share(
    seeds: list[bytes], seed: int, indices: Sequence[int], folder: Path, at: Callable[[int], object] = id
) -> Tally:
    """Examine these inputs; `at` is told the index before each."""
    tally = Tally()
    for index in indices:
        at(index)
        made = mutant(seeds, seed, index)
        started = time.perf_counter()
        outcome, reasons, failure = examine(made, folder, sampled=index % SAMPLED == 0)
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


def _work(seeds: list[bytes], seed: int, indices: list[int], current: Any, results: Connection) -> None:
    """One process: sends a tally for every thousand inputs; `current` tells the index it died at, if it does."""
    warnings.simplefilter("error")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def at(index: int) -> None:
        current.value = index

    shared_memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared_memory if shared_memory.is_dir() else None) as name:
        for first in range(0, len(indices), 1000):
            results.send(run_share(seeds, seed, indices[first : first + 1000], Path(name), at))
    results.send(None)


class Worker:
    """A process and the inputs that are its to examine; one that crashes goes on after the input that killed it."""

    def __init__(self, seeds: list[bytes], seed: int, indices: Sequence[int]) -> None:
        self._seeds, self._seed, self._left = seeds, seed, list(indices)
        self._start()

    def _start(self) -> None:
        self._current = multiprocessing.Value("q", -1)
        self.results, sender = multiprocessing.Pipe(duplex=False)
        arguments = (self._seeds, self._seed, self._left, self._current, sender)
        self._process = multiprocessing.Process(target=_work, args=arguments, daemon=True)
        self._process.start()
        sender.close()

    def next_tally(self) -> Tally | None:
        """What was found since the last call; None at the end."""
        try:
            received: Tally | None = self.results.recv()
        except EOFError:
            return self._after_crash()
        if received is not None:
            del self._left[: received.inputs]
        return received

    def _after_crash(self) -> Tally:
        """The crash as a failure. What the process had not yet reported is examined again, but for the input itself."""
        self._process.join()
        index = int(self._current.value)
        key = f"process died with {self._process.exitcode}"
        made = mutant(self._seeds, self._seed, index)
        failure = Failure(key=key, trace=key, input=made, index=index)
        self._left.remove(index)
        self._start()
        return Tally(inputs=1, outcomes=Counter({"failed": 1}), failed=Counter({key: 1}), failures={key: [failure]})


def run_all(seeds: list[bytes], seed: int, indices: range, jobs: int) -> Tally:
    """Examine all inputs on several processes, telling the progress on stderr; when stopped, what there is so far."""
    workers = [Worker(seeds, seed, indices[job::jobs]) for job in range(jobs)]
    total, started = Tally(), time.monotonic()
    try:
        while workers:
            ready = wait([worker.results for worker in workers], timeout=60)
            for worker in [worker for worker in workers if worker.results in ready]:
                tally = worker.next_tally()
                if tally is None:
                    workers.remove(worker)
                else:
                    total.add(tally)
            rate = total.inputs / (time.monotonic() - started)
            failed = sum(total.failed.values())
            print(f"\r{total.inputs} inputs, {rate:.0f}/s, {failed} failed", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("\nstopped before the end", end="", file=sys.stderr)
    print(file=sys.stderr)
    return total


# --- the command line -------------------------------------------------------------------------------------------------


def report(tally: Tally, took_s: float) -> None:
    print(f"{tally.inputs:,} inputs in {took_s:.0f} s: {tally.inputs / took_s:.0f}/s")
    for title, counts in (("outcomes", tally.outcomes), ("ledger reasons, inputs", tally.reasons)):
        print(f"\n{title} ({len(counts)}):")
        for name, count in counts.most_common():
            print(f"  {count:9,}  {name}", flush=True)
    print("\nslowest:")
    for took, index, how in tally.slowest:
        print(f"  {took * 1000:7.1f} ms  input {index}: {' '.join(how)}")
    print(f"\nfailures: {sum(tally.failed.values())} of {len(tally.failed)} kinds")


def save_failures(tally: Tally, folder: Path) -> None:
    """Print each kind of failure at its smallest, and keep input and traceback."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (key, failures) in enumerate(sorted(tally.failures.items())):
        print(f"\n{key}: {tally.failed[key]} inputs, first kept {failures[0].index}")
        smallest = failures[0]
        if not key.startswith("process died"):
            with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
                warnings.simplefilter("error")
                smallest = smaller(smallest, Path(name))
        (folder / f"{number:02}-{smallest.input.name}").write_bytes(smallest.input.data)
        (folder / f"{number:02}.txt").write_text(f"{key}\n{smallest.input.how}\n{smallest.trace}", errors="replace")
        print(f"  {smallest.input.name} {len(smallest.input.data)} bytes: {smallest.input.data[:400]!r}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="index of the first input")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save-failures", type=Path, default=Path("fuzz-failures"), metavar="DIR")
    arguments = parser.parse_args()
    seeds = own_seeds() + real_seeds()
    print(f"{len(seeds)} seeds of {min(map(len, seeds))} to {max(map(len, seeds))} bytes", file=sys.stderr)
    started = time.monotonic()
    indices = range(arguments.first, arguments.first + arguments.inputs)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tally = run_all(seeds, arguments.seed, indices, arguments.jobs)
    report(tally, time.monotonic() - started)
    if tally.failures:
        save_failures(tally, arguments.save_failures)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
