"""Measure how well `redline compare` measures: python -m bench.trial_times --out FOLDER [--part blocks] [--busy 2]"""

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Process
from pathlib import Path

from bench.trial_times.beside import compare_with_others
from bench.trial_times.blocks import record_trials
from bench.trial_times.processes import try_processes
from bench.trial_times.record import counts, keep, kept

_OF_A_PROCESS = 10  # trials that follow each other in one process, where blocks are compared


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.trial_times", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where outcomes are kept; they are not made again")
    parser.add_argument("--busy", type=int, default=0, help="loops that keep the machine busy meanwhile")
    parser.add_argument("--extra", type=int, nargs="+", default=[0, 1, 2, 5, 10], help="percent of extra work")
    parser.add_argument("--trials", type=int, default=50, help="of each")
    parser.add_argument("--seed", type=int, default=1, help="of the orders within pairs")
    parser.add_argument("--part", choices=("blocks", "processes", "beside"), default="blocks", help="what is compared")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with _busy(options.busy):
        for extra in options.extra:
            name = f"{options.part}-{extra}-busy{options.busy}.jsonl"
            _fill(options.out / name, options.part, extra, options.trials, options.seed)
    _print_counts(options.out)
    return 0


def _fill(path: Path, part: str, extra: int, trials: int, first_seed: int) -> None:
    """Up to so many trials, in several processes."""
    while (done := _lines(path)) < trials:
        seed = first_seed + done + 1000 * extra
        if part == "blocks":
            keep(path, record_trials(extra, min(_OF_A_PROCESS, trials - done), seed))
        elif part == "processes":
            keep(path, [try_processes(extra, seed)])
        else:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(compare_with_others(extra, seed)) + "\n")


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0


def _print_counts(out: Path) -> None:
    for path in sorted(out.glob("*.jsonl")):
        if path.stem.startswith("beside"):
            for line in path.read_text(encoding="utf-8").splitlines():
                print(path.stem, line)
        else:
            for count in counts(kept(path)):
                print(path.stem, count)


@contextmanager
def _busy(loops: int) -> Iterator[None]:
    processes = [Process(target=_loop, daemon=True) for _ in range(loops)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def _loop() -> None:
    while True:
        pass


if __name__ == "__main__":
    raise SystemExit(main())
