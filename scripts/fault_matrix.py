"""Runs every fault of `tests.support.fault_cases` at every place on 1, 2 and 4 processes, and prints what came of each.

    python -m scripts.fault_matrix [part of a name ...]

Names are like `sigkill-in-2`. Two cases run at a time; all of them take about an hour on two cores.
"""

import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.fault_cases import (
    ON_OWN_DISK,
    Case,
    Outcome,
    bare_case,
    broken,
    can_have_own_disk,
    every_case,
    run_bare,
    run_watched,
)

AT_A_TIME = 2


class Bare:
    """Bare runs, each made once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._locks: dict[Case, threading.Lock] = {}
        self._known: dict[Case, Outcome] = {}
        self._all = threading.Lock()

    def get(self, case: Case) -> Outcome:
        with self._all:
            lock = self._locks.setdefault(case, threading.Lock())
        with lock:
            if case not in self._known:
                self._known[case] = run_bare(case, self._folder / f"bare-{case}")
            return self._known[case]


def try_out(case: Case, bare: Bare, folder: Path) -> str:
    """A line of the table."""
    if case.fault in ON_OWN_DISK and not can_have_own_disk():
        return f"{case!s:24} skipped: no disk of its own can be had here"
    began_s = time.monotonic()
    try:
        expected = bare.get(bare_case(case))
        found = broken(case, expected, run_watched(case, folder / str(case)), folder / str(case))
    except Exception as error:  # noqa: BLE001 (a line of the table, too)
        found = [f"{type(error).__name__}: {error}"]
    return f"{case!s:24} {'; '.join(found) or 'ok'}  ({time.monotonic() - began_s:.1f} s)"


def main() -> int:
    wanted = sys.argv[1:]
    cases = [case for case in every_case() if not wanted or any(part in str(case) for part in wanted)]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="fault-matrix-") as name, ThreadPoolExecutor(AT_A_TIME) as pool:
        bare = Bare(Path(name))
        for line in pool.map(lambda case: try_out(case, bare, Path(name)), cases):
            failed += "  (" in line and " ok  (" not in line
            print(line, flush=True)
    print(f"{len(cases)} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
