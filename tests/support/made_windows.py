"""Digests of a long job in folders of windows: a few simulated windows that take turns, and changed ones."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from redline.artifacts import DIGEST_ENDING
from redline.job.read_files import JobOptions
from redline.verbs.digest import digest
from tests.support.traces.synthetic import JobSpec, Straggler, write_job

RANKS, PER_NODE = 4, 2
GRACE_S = 60
BEGUN_S = 1_790_900_000
EVERY_S = 600
HEALTHY = JobSpec(ranks=RANKS, gpus_per_node=PER_NODE, steps=3, layers=2)
SLOW_RANK = replace(HEALTHY, stragglers=(Straggler(rank=1, extra_us=2500),))
SLOW_NODE = replace(HEALTHY, stragglers=tuple(Straggler(rank=rank, extra_us=2500) for rank in (2, 3)))
SLOW_INPUT = replace(HEALTHY, input_us=3000)
SLOW_LINK = replace(HEALTHY, network_gb_per_s=10.0)
SEEDS = 3


def write_windows(folder: Path, windows: Sequence[JobSpec], first: int = 1, without: Sequence[int] = ()) -> None:
    """One folder per window, files as old as if a window came every ten minutes. Ranks in `without` leave none."""
    for number, spec in enumerate(windows, start=first):
        target = folder / f"window-{number}"
        target.mkdir(parents=True)
        for name, content in _digests(replace(spec, seed=number % SEEDS)).items():
            if name.removesuffix(DIGEST_ENDING).removeprefix("rank-") in {f"{rank:05d}" for rank in without}:
                continue
            part = target / f".{name}.part"
            part.write_bytes(content)
            os.utime(part, (BEGUN_S + EVERY_S * number,) * 2)
            part.rename(target / name)


@cache
def _digests(spec: JobSpec) -> dict[str, bytes]:
    folder = Path(tempfile.mkdtemp())
    try:
        write_job(spec, folder / "traces")
        digest([folder / "traces"], folder / "digests", options=JobOptions(use_cache=False, jobs=1))
        return {path.name: path.read_bytes() for path in sorted((folder / "digests").iterdir())}
    finally:
        shutil.rmtree(folder)
