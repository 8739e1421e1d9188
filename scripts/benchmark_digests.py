"""How `redline diagnose` scales over digests: `python -m scripts.benchmark_digests FOLDER --ranks 16384`.

Writes synthetic digests into FOLDER, of which no two are alike (`tests.support.made_digests`), then diagnoses them in a
process of its own and prints wall time, CPU time and peak memory. Digests already in FOLDER are used again.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from redline.artifacts import DIGEST_ENDING
from tests.support.made_digests import write_distinct

DIAGNOSE = "import sys; from redline.cli import main; sys.exit(main(['diagnose', *sys.argv[1:]]))"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=16_384)
    parser.add_argument("--what-if", action="append", default=[], help="replay them, too")
    options = parser.parse_args()
    asked = [word for scenario in options.what_if for word in ("--what-if", scenario)]
    if not list(options.folder.glob(f"*{DIGEST_ENDING}")):
        write_distinct(options.folder, options.ranks)
    files = list(options.folder.glob(f"*{DIGEST_ENDING}"))
    size = sum(path.stat().st_size for path in files)
    begin = time.monotonic()
    command = [sys.executable, "-c", DIAGNOSE, str(options.folder), *asked]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - begin
    print(
        f"{len(files):,} digests, {size / 1e6:.0f} MB: {wall_s:.1f} s, {usage.ru_utime + usage.ru_stime:.1f} CPU s, "
        f"peak {usage.ru_maxrss * 1024 / 1e6:.0f} MB, exit code {os.waitstatus_to_exitcode(status)}"
    )


if __name__ == "__main__":
    main()
