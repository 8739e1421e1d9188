"""How `redline diagnose` scales over digests: `python scripts/benchmark_digests.py FOLDER --ranks 16384`.

Writes synthetic digests into FOLDER (64 ranks are simulated as 8 x 8 data and tensor parallel, digested, and repeated
with other ranks, clocks and tensor-parallel groups; the data-parallel groups span all repetitions), then diagnoses them
in a process of its own and prints wall time, CPU time and peak memory. Digests already in FOLDER are used again.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from redline.analysis.job.digests import digest_job
from redline.analysis.rank.digest import Digest
from redline.analysis.rank.digest_file import encoded
from redline.analysis.rank.exchanges import Series
from redline.findings.observe import observe
from redline.testing.synthetic import JobSpec, Layout, write_job
from redline.trace.find import DIGEST_ENDING
from redline.trace.job import JobOptions

SIMULATED, TENSOR_PARALLEL = 64, 8
DIAGNOSE = "import sys; from redline.verbs.diagnose import diagnose; diagnose([sys.argv[1]])"


def write_digests(folder: Path, ranks: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        layout = Layout(dp=SIMULATED // TENSOR_PARALLEL, tp=TENSOR_PARALLEL)
        write_job(JobSpec(ranks=SIMULATED, layout=layout, steps=3, layers=16), Path(scratch))
        paths = sorted(Path(scratch).glob("rank-*.gz"))
        digests = digest_job(paths, None, JobOptions(use_cache=False), observe=observe).digests
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        one = repeated(digests[rank % SIMULATED], rank // SIMULATED)
        (folder / f"rank-{rank:05d}{DIGEST_ENDING}").write_bytes(encoded(one, "scripts/benchmark_digests.py"))


def repeated(digest: Digest, repetition: int) -> Digest:
    """The same rank in another part of a larger job, with a clock of its own."""
    rank = digest.origin.rank + repetition * SIMULATED
    offset_ns = random.Random(rank).randrange(-5_000_000, 5_000_000)
    exchanges = digest.exchanges
    return replace(
        digest,
        origin=replace(digest.origin, rank=rank, world_size=0),
        zero_ns=digest.zero_ns + offset_ns,
        exchanges=replace(exchanges, start_ns=exchanges.start_ns + offset_ns, end_ns=exchanges.end_ns + offset_ns),
        series=tuple(moved(series, digest.origin.rank, repetition) for series in digest.series),
    )


def moved(series: Series, rank: int, repetition: int) -> Series:
    first = rank - rank % TENSOR_PARALLEL
    is_tensor_parallel = series.group.startswith(f"[{first}, {first + 1}")
    return replace(series, group=f"{series.group}@{repetition}") if is_tensor_parallel else series


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=16_384)
    options = parser.parse_args()
    if not list(options.folder.glob(f"*{DIGEST_ENDING}")):
        write_digests(options.folder, options.ranks)
    files = list(options.folder.glob(f"*{DIGEST_ENDING}"))
    size = sum(path.stat().st_size for path in files)
    begin = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", DIAGNOSE, str(options.folder)])
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - begin
    print(
        f"{len(files):,} digests, {size / 1e6:.0f} MB: {wall_s:.1f} s, {usage.ru_utime + usage.ru_stime:.1f} CPU s, "
        f"peak {usage.ru_maxrss / 1024:.0f} MB, exit code {os.waitstatus_to_exitcode(status)}"
    )


if __name__ == "__main__":
    main()
