"""Feeds mutants of whatever is read, or is a word of a command line, to what reads it: see tests/support/fuzzing.

    python -m scripts.fuzz --kind digest --count 100000 --seed 1 --progress digests.jsonl

Prints the rate, what became of the inputs, and each distinct failure made as small as it gets. With `--progress` every
chunk that is done is noted in that file, and the same command goes on after the last of them. Exit code 1: some failed.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from multiprocessing.connection import wait
from pathlib import Path

from tests.support.fuzzing.given import GIVEN
from tests.support.fuzzing.records import CALIBRATION, CONFIG, DIGEST, PROFILE, RUN
from tests.support.fuzzing.runner import Kind, Tally, Worker, smaller
from tests.support.fuzzing.traces import TRACE

KINDS = {kind.name: kind for kind in (TRACE, DIGEST, PROFILE, CALIBRATION, CONFIG, RUN, *GIVEN)}


def run_all(kind: Kind, seed: int, indices: range, jobs: int) -> Tally:
    """Examine all inputs on several processes, telling the progress on stderr; when stopped, what there is so far."""
    workers = [Worker(kind, seed, indices[job::jobs]) for job in range(jobs)]
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


def report(tally: Tally, took_s: float) -> None:
    print(f"{tally.inputs:,} inputs in {took_s:.0f} s: {tally.inputs / took_s:.0f}/s")
    for title, counts in (("outcomes", tally.outcomes), ("found, inputs", tally.reasons)):
        print(f"\n{title} ({len(counts)}):")
        for name, count in counts.most_common():
            print(f"  {count:9,}  {name}", flush=True)
    print("\nslowest:")
    for took, index, how in tally.slowest:
        print(f"  {took * 1000:7.1f} ms  input {index}: {' '.join(how)}")
    print(f"\nfailures: {sum(tally.failed.values())} of {len(tally.failed)} kinds")


def save_failures(kind: Kind, tally: Tally, folder: Path) -> None:
    """Print each kind of failure at its smallest, and keep input and traceback."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (key, failures) in enumerate(sorted(tally.failures.items())):
        print(f"\n{key}: {tally.failed[key]} inputs, first kept {failures[0].index}")
        smallest = failures[0]
        if not key.startswith("process died"):
            with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
                warnings.simplefilter("error")
                smallest = smaller(kind, smallest, Path(name))
        (folder / f"{number:02}-{smallest.input.name}").write_bytes(smallest.input.data)
        (folder / f"{number:02}.txt").write_text(f"{key}\n{smallest.input.how}\n{smallest.trace}", errors="replace")
        print(f"  {smallest.input.name} {len(smallest.input.data)} bytes: {smallest.input.data[:400]!r}")


def done_before(progress: Path | None, kind: Kind, seed: int) -> Counter[str]:
    """How many inputs of this kind and seed, and how many of them failed, according to the file."""
    done: Counter[str] = Counter()
    if progress is not None and progress.exists():
        for line in map(json.loads, progress.read_text().splitlines()):
            if (line["kind"], line["seed"]) == (kind.name, seed):
                done.update(inputs=line["inputs"], failed=line["failed"])
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--count", type=int, default=100_000, help="inputs, with those that were done before")
    parser.add_argument("--first", type=int, default=0, help="index of the first input")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--chunk", type=int, default=5_000, help="inputs between two notes of progress")
    parser.add_argument("--progress", type=Path, metavar="FILE")
    parser.add_argument("--save-failures", type=Path, default=Path("fuzz-failures"), metavar="DIR")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    kind, started = KINDS[arguments.kind], time.monotonic()
    before = done_before(arguments.progress, kind, arguments.seed)
    tally, end = Tally(), arguments.first + arguments.count
    for first in range(arguments.first + before["inputs"], end, arguments.chunk):
        indices = range(first, min(first + arguments.chunk, end))
        part = run_all(kind, arguments.seed, indices, arguments.jobs)
        tally.add(part)
        if part.inputs < len(indices):  # stopped: this chunk is done again next time
            break
        if arguments.progress is not None:
            note = {"kind": kind.name, "seed": arguments.seed, "inputs": part.inputs, "failed": part.failed.total()}
            with arguments.progress.open("a") as file:
                file.write(json.dumps(note) + "\n")
    if before:
        print(f"{before['inputs']:,} inputs were done before, {before['failed']} of them failed")
    report(tally, time.monotonic() - started)
    if tally.failures:
        save_failures(kind, tally, arguments.save_failures)
    return 1 if tally.failures or before["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
