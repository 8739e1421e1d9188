"""Calibrates several times in a row, and counts how often two calibrations agree within their own intervals.

    python -m scripts.repeat_calibration --times 5 -- --quick

What follows `--` are options of `redline calibrate`. Every two of the calibrations are a pair. Ends with 1 where the
intervals of less than 9 in 10 pairs of figures overlap.
"""

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import combinations
from pathlib import Path

from redline.calibration.calibration_record import Calibration
from redline.calibration.compare import ComparisonVerdict, Row, compare
from redline.verbs.calibrate import load_calibrated

NEEDED = 0.9


def calibrated(folder: Path, number: int, options: list[str]) -> Calibration:
    path = folder / f"{number}.json"
    subprocess.run(
        [sys.executable, "-m", "redline", "calibrate", "-q", "-o", str(path), *options],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    found = load_calibrated(path).calibration
    print(f"calibration {number}: {found.seconds:.0f} s, noisy by: {', '.join(found.conditions.noisy) or 'nothing'}, "
          f"beat within {found.conditions.beat_spread:.1%}", flush=True)  # fmt: skip
    return found


def told(rows: list[Row], what: str) -> float:
    same = sum(row.verdict is ComparisonVerdict.SAME for row in rows)
    widths = sorted(max(row.first.spread, row.second.spread) for row in rows)
    share = same / len(rows) if rows else 1.0
    print(f"{what}: {same} of {len(rows)} pairs agree ({share:.1%}); the intervals are {widths[len(widths) // 2]:.1%} "
          "to either side (median)")  # fmt: skip
    return share


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("options", nargs="*", help="of redline calibrate")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = [calibrated(Path(folder), number, arguments.options) for number in range(arguments.times)]
    rows = [row for first, second in combinations(found, 2) for row in compare(first, second).rows]
    main_rows = [row for row in rows if row.is_main]
    for family in dict.fromkeys(row.family for row in rows):
        told([row for row in main_rows if row.family == family], f"  {family}, figures to plan with")
    apart = Counter(f"{row.quantity} {row.of}" for row in rows if row.verdict is not ComparisonVerdict.SAME)
    for name, count in apart.most_common(10):
        print(f"  apart {count} times: {name}")
    told(rows, "all figures and points")
    return 0 if told(main_rows, "figures to plan with") >= NEEDED else 1


if __name__ == "__main__":
    sys.exit(main())
