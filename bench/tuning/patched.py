"""Hold the patch of a search against its tuned.toml, by time: python -m bench.tuning.patched --record FOLDER CASE

The patch is applied to a copy of the script with `git apply`; pairs of processes then take turns.
"""

import argparse
import json
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.tuning.cases import CASES, STEPS, TuningCase, case_of
from bench.tuning.fresh_pairs import FreshChange, time_in_turns
from bench.tuning.run_tune import levers_in
from redline.capture.supervisor.trial_command import trial_command

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tuning.patched", description=__doc__)
    parser.add_argument("--record", type=Path, required=True, help="of the search, with tuned.toml and tuned.diff")
    parser.add_argument("--turns", type=int, default=2, help="of six fresh pairs each")
    parser.add_argument("--steps", type=int, default=40, help="of a process that is timed")
    parser.add_argument("case", choices=[case.name for case in CASES])
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        patched = apply_patch(case_of(options.case), options.record.resolve(), Path(folder))
        timed = time_against_settings(case_of(options.case), options.record, patched, options.turns, options.steps)
    print(json.dumps(asdict(timed)))
    return 0


def apply_patch(case: TuningCase, record: Path, folder: Path) -> Path:
    """The script of a case with the patch of its search, at the path that it has in the project."""
    copied = folder / case.script.relative_to(ROOT)
    copied.parent.mkdir(parents=True)
    shutil.copy(case.script, copied)
    subprocess.run(["git", "apply", str(record / "tuned.diff")], cwd=folder, check=True)
    return copied


def time_against_settings(case: TuningCase, record: Path, patched: Path, turns: int, steps: int) -> FreshChange:
    """The patched script against the unchanged one with the levers of tuned.toml."""
    start = trial_command(case.start, levers=levers_in(record / "tuned.toml"))
    command = (*case.start[: -1 - len(STEPS)], str(patched), *STEPS)
    return time_in_turns(start, {"patched": trial_command(command)}, turns=turns, steps=steps, seed=1)["patched"]


if __name__ == "__main__":
    sys.exit(main())
