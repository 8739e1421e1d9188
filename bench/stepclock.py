"""Times the steps of one twin of a job, without Redline; a script of its own, run by bench.gain.

python stepclock.py JOB.py flawed|healthy --steps N --report FILE     (under torchrun for several ranks)

Rank 0 writes FILE: wall and CPU nanoseconds at the start, after each call of an optimizer's step, and at the end.
"""

import argparse
import importlib.util
import json
import os
import sys
import time
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("job", type=Path)
    parser.add_argument("twin", choices=("flawed", "healthy"))
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--report", type=Path, required=True)
    options = parser.parse_args()
    stamps: list[tuple[int, int]] = []

    def stamp(*_: object) -> None:
        stamps.append((time.perf_counter_ns(), time.process_time_ns()))

    spec = importlib.util.spec_from_file_location("job", options.job)
    assert spec is not None
    assert spec.loader is not None
    job = importlib.util.module_from_spec(spec)
    sys.modules["job"] = job  # where workers of a data loader look for its classes
    spec.loader.exec_module(job)
    register_optimizer_step_post_hook(stamp)
    stamp()
    job.main(options.twin == "flawed", options.steps)
    stamp()
    if os.environ.get("RANK", "0") == "0":
        wall, cpu = zip(*stamps, strict=True)
        report = {"wall_ns": wall, "cpu_ns": cpu, "steps": options.steps, "torch": torch.__version__}
        options.report.write_text(json.dumps(report), encoding="utf-8")


if __name__ == "__main__":
    main()
