"""Run the long checks that no landing waits for, and note in tests/sweeps.json when and on which commit each passed.

python -m scripts.sweep                  all of them, a night on two cores
python -m scripts.sweep attacks faults   some
python -m scripts.sweep --list           each with its command, and when it last passed

Run them before a release, and the one that fits after a change to what it sweeps. A checkout with changes is refused:
what passed must be a commit.
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from scripts.fuzz import KINDS

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "tests" / "sweeps.json"
SWEEPS = {
    "slow": "-m pytest -q -n 2 -m slow",
    "attacks": "-m pytest -q -n 2 -m 'slow or not slow' tests/e2e/test_run_attacks.py",
    "faults": "-m scripts.fault_matrix",
    "properties": "-m pytest -q -n 2 -m hypothesis --hypothesis-profile sweep tests/unit;"
    " -m pytest -q --hypothesis-profile sweep tests/e2e/test_sequences.py",
    "input": " ".join(f"-m scripts.fuzz --kind {kind} --count 5000;" for kind in KINDS),
    "causes": "-m bench --out bench-results",
    "soak": "scripts/soak_run.py --windows 10000",
    "floors": "scripts/lowest_versions.py -m 'not slow' tests/unit tests/golden",
    "mistakes": "-m scripts.mutants",
    "replay": "-m scripts.score_replay exact bench",
    "calibration": "-m scripts.check_calibration peaks",
}


def main() -> int:
    options = _options()
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    if options.list:
        for name, command in SWEEPS.items():
            passed = record.get(name)
            when = (
                f"passed {passed['date']} on {passed['commit']} in {passed['minutes']} min"
                if passed
                else "never passed"
            )
            print(f"{name:12} {when:52} python {command}")
        return 0
    if _git("status", "--porcelain", "--untracked-files=no"):
        print("commit first: what passed is noted with its commit", file=sys.stderr)
        return 2
    failed = [name for name in options.names or SWEEPS if not _passes(name, record)]
    print(f"failed: {', '.join(failed)}" if failed else "all passed")
    return 1 if failed else 0


def _passes(name: str, record: dict[str, dict[str, object]]) -> bool:
    print(f"== {name}: python {SWEEPS[name]}", flush=True)
    began = time.monotonic()
    words = (shlex.split(part) for part in SWEEPS[name].split(";") if part)
    passed = all(subprocess.run([sys.executable, *command], cwd=ROOT, check=False).returncode == 0 for command in words)
    if passed:
        minutes = round((time.monotonic() - began) / 60)
        date = datetime.now(UTC).date().isoformat()
        record[name] = {"commit": _git("rev-parse", "--short", "HEAD"), "date": date, "minutes": minutes}
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return passed


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", choices=[*SWEEPS, []], metavar="NAME", help=", ".join(SWEEPS))
    parser.add_argument("--list", action="store_true", help="what there is, and when it last passed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
