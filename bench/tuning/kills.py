"""Kill `redline tune` at random moments: python -m bench.tuning.kills --out FOLDER [--times 10] [--seed 1]

After each SIGKILL: no process of it may be left, the user's files are as before, and what had been measured is not
measured again when it goes on with the same folder. At the end it runs undisturbed.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from secrets import token_hex
from time import monotonic, sleep

from bench.tuning.processes_of import end_processes_of, marked_environment, processes_of
from bench.tuning.run_tune import tune_words
from bench.tuning.traps.expected import JOB

GRACE_S = 10.0  # after which nothing may be left
_LAST_RUN_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class KillOutcome:
    """What was found after one kill, and how far the search had come."""

    after_s: float
    had_ended: bool  # by itself, before the kill
    left: tuple[str, ...]  # command lines of processes that outlived it
    is_folder_unchanged: bool
    trials: int  # records that there were
    measured_again: tuple[str, ...]  # records of earlier runs that are gone or differ

    @property
    def is_clean(self) -> bool:
        return not self.left and self.is_folder_unchanged and not self.measured_again


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tuning.kills", description=__doc__)
    parser.add_argument(
        "--out", type=Path, required=True, help="where the record of the search and the outcomes are kept"
    )
    parser.add_argument("--times", type=int, default=10, help="kills")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--budget", type=int, default=10, help="minutes of the search")
    parser.add_argument("--longest", type=float, default=90.0, help="seconds before a kill at most")
    options = parser.parse_args()
    out = options.out.resolve()
    folder = user_folder(out / "user")
    words = tune_words((JOB.name,), out / "record", options.budget)
    moments = Random(options.seed)
    outcomes = []
    for _ in range(options.times):
        outcomes.append(kill_once(words, folder, out / "record", moments.uniform(2.0, options.longest)))
        with (out / "kills.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcomes[-1])) + "\n")
        print("clean" if outcomes[-1].is_clean else "NOT CLEAN", outcomes[-1], flush=True)
    is_finished = finish(words, folder, out)
    clean = sum(outcome.is_clean for outcome in outcomes)
    print(f"{clean} of {len(outcomes)} kills were clean; the search {'ended' if is_finished else 'DID NOT END'}")
    return 0 if is_finished and clean == len(outcomes) else 1


def user_folder(path: Path) -> Path:
    """A script as it lies in a user's folder, with a file beside it."""
    path.mkdir(parents=True, exist_ok=True)
    shutil.copy(JOB, path / JOB.name)
    (path / "notes.txt").write_text("mine\n", encoding="utf-8")
    return path


def kill_once(words: list[str], folder: Path, record: Path, after_s: float) -> KillOutcome:
    """Start, wait, kill, wait again, look."""
    files, trials = hashes(folder), hashes(record / "trials")
    word = token_hex(8)
    started_s = monotonic()
    with (record.parent / "tune.log").open("a", encoding="utf-8") as log:
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=marked_environment(word),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        while process.poll() is None and monotonic() - started_s < after_s:
            sleep(0.05)
        had_ended = process.poll() is not None
        if not had_ended:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
    sleep(GRACE_S)
    left = tuple(processes_of(word).values())
    end_processes_of(word)
    now = hashes(record / "trials")
    return KillOutcome(
        after_s=round(monotonic() - started_s - GRACE_S, 2),
        had_ended=had_ended,
        left=left,
        is_folder_unchanged=hashes(folder) == files,
        trials=len(now),
        measured_again=tuple(sorted(name for name, known in trials.items() if now.get(name) != known)),
    )


def finish(words: list[str], folder: Path, out: Path) -> bool:
    """Whether it gets to its end when nobody kills it."""
    with (out / "tune.log").open("a", encoding="utf-8") as log:
        done = subprocess.run(
            words, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=_LAST_RUN_S, check=False
        )
    return done.returncode == 0


def hashes(folder: Path) -> dict[str, str]:
    """Of all files below a folder, by their paths in it; caches of Python are nobody's."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


if __name__ == "__main__":
    raise SystemExit(main())
