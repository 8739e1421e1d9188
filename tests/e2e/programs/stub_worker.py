"""A process of a job that has no torch: it names its steps, and ends as it is told.

In --folder each rank leaves started-N when it runs, and told-N when it is told to end.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

import redline


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=5, help="and one more for each rank")
    parser.add_argument("--wait", action="store_true", help="after the steps, to be told to end")
    parser.add_argument("--failing-rank", type=int, default=-1, help="this one exits with 7, after all have started")
    options = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

    def told(*_: object) -> None:
        (options.folder / f"told-{rank}").touch()
        sys.exit(0)

    signal.signal(signal.SIGTERM, told)
    for _ in range(options.steps + rank):
        time.sleep(0.001)
        redline.step()
    (options.folder / f"started-{rank}").touch()
    assert "torch" not in sys.modules
    if rank == options.failing_rank:
        while len(list(options.folder.glob("started-*"))) < world:
            time.sleep(0.05)
        sys.exit(7)
    while options.wait:
        time.sleep(0.05)


if __name__ == "__main__":
    main()
