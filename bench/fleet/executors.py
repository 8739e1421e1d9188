"""One job on every executor: `python -m bench.fleet.executors FOLDER --ranks 64`.

Writes synthetic traces of 40,000 events each into FOLDER (those that are there are used again), and diagnoses them by
a pool, by Ray, by both with a worker killed and with a file that is gone, and from digests made at once, in eight parts
and by an array job of Slurm (with `--slurm`, as root). Prints what each takes, and ends with 1 unless those of a group
give the same JSON.

`--distinct 64` makes every further trace a copy by link of one of the first: then the disk need not hold 12.8 GB, and
the work of digests is the same. Copies state a rank that is taken, so this is for the runs on traces alone.
"""

import argparse
import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.fleet.process_costs import Cost, cost_of
from bench.fleet.slurm_node import slurm_node, why_absent
from tests.support.traces.synthetic import JobSpec, Straggler, rank_file_name, simulate_job, write_rank

EVENTS = 40_000
PARTS = 8
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "cluster.md"
REDLINE = (sys.executable, "-m", "redline")
RAY_WORKER, POOL_WORKER = b"ray::on_node", b"spawn_main"
GROUPS = (
    ("pool", "pool-killed", "ray", "ray-killed"),
    ("pool-missing", "ray-missing"),
    ("digests", "parts", "slurm"),
)


@dataclass(frozen=True, kw_only=True)
class Job:
    """Where the traces of a job are, and where results go."""

    folder: Path
    jobs: int

    @property
    def traces(self) -> Path:
        return self.folder / "traces"

    @property
    def missing(self) -> Path:
        return self.folder / "missing"

    def result(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def digests(self, name: str) -> Path:
        return self.folder / f"digests-{name}"


def sbatch_file() -> str:
    """That of the page on clusters."""
    (text,) = [block for block in PAGE.read_text().split("```") if "#SBATCH" in block]
    return text.removeprefix("sh\n")


def main() -> int:
    options = _options()
    job = Job(folder=options.folder.resolve(), jobs=options.jobs)
    _write_traces(job, options.ranks, options.distinct or options.ranks)
    names = options.only or [name for group in GROUPS for name in group if name != "slurm" or options.slurm]
    for name in names:
        cost = _run(job, name)
        print(
            f"{name:13}{cost.wall_s:8.1f} s {cost.cpu_s:8.1f} CPU s {cost.cpu_s / options.ranks * 1e3:7.0f} ms a rank, "
            f"largest process {cost.peak_bytes / 1e6:4.0f} MB; {_told(job.result(name))}"
            + (f"; {cost.killed} worker killed" if cost.killed else ""),
            flush=True,
        )
    different = [group for group in GROUPS if not _are_same(job, [name for name in group if name in names])]
    return 1 if different else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--distinct", type=int, help="traces that are written; the others are links to them")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--slurm", action="store_true", help="also by an array job of a Slurm that is started here")
    parser.add_argument("--only", nargs="+", choices=[name for group in GROUPS for name in group])
    return parser.parse_args()


def _write_traces(job: Job, ranks: int, distinct: int) -> None:
    """Rank by rank; those that are there are kept. One more folder has the same traces, and a link to nothing."""
    job.traces.mkdir(parents=True, exist_ok=True)
    straggler = Straggler(rank=distinct // 2, extra_us=2000, where="host")
    if len(list(job.traces.iterdir())) < ranks:
        schedule = simulate_job(JobSpec(ranks=distinct, steps=3, events_per_rank=EVENTS, stragglers=(straggler,)))
        for rank in range(ranks):
            target = job.traces / rank_file_name(rank)
            if target.exists():
                continue
            if rank < distinct:
                write_rank(schedule, rank, job.traces)
            else:
                os.link(job.traces / rank_file_name(rank % distinct), target)
    if not job.missing.exists():
        job.missing.mkdir()
        for path in job.traces.iterdir():
            os.link(path, job.missing / path.name)
        (job.missing / rank_file_name(ranks)).symlink_to(job.folder / "gone.json.gz")


def _run(job: Job, name: str) -> Cost:
    executor, _, fault = name.partition("-")
    if executor in ("pool", "ray"):
        kill = {"pool": POOL_WORKER, "ray": RAY_WORKER}[executor] if fault == "killed" else b""
        where = "missing/*.json.gz" if fault == "missing" else "traces"
        options = ["--executor", executor, "--jobs", str(job.jobs), "--no-cache"]
        return cost_of(_diagnose(job, name, where, *options), job.folder, kill=kill)
    shutil.rmtree(job.digests(name), ignore_errors=True)
    digested = {"digests": _digest_at_once, "parts": _digest_in_parts, "slurm": _digest_by_slurm}[name](job)
    cost_of(_diagnose(job, name, str(job.digests(name))), job.folder)
    return digested


def _diagnose(job: Job, name: str, where: str, *options: str) -> list[str]:
    return [*REDLINE, "diagnose", where, "--quiet", "--force", "-o", str(job.result(name)), *options]


def _digest_at_once(job: Job) -> Cost:
    return cost_of(_digest(job, "digests"), job.folder)


def _digest_in_parts(job: Job) -> Cost:
    costs = [cost_of(_digest(job, "parts", "--shard", f"{part}/{PARTS}"), job.folder) for part in range(PARTS)]
    return Cost(
        wall_s=sum(cost.wall_s for cost in costs),
        cpu_s=sum(cost.cpu_s for cost in costs),
        peak_bytes=max(cost.peak_bytes for cost in costs),
        killed=0,
    )


def _digest(job: Job, name: str, *options: str) -> list[str]:
    output = str(job.digests(name))
    return [
        *REDLINE,
        "digest",
        "traces",
        "-o",
        output,
        "--quiet",
        "--no-cache",
        "--jobs",
        str(job.jobs),
        *options,
    ]


def _digest_by_slurm(job: Job) -> Cost:
    """The sbatch file as it is on the page, in a folder where it finds `traces` and `redline`."""
    if why := why_absent():
        raise SystemExit(f"--slurm: {why}")
    work = job.folder / "slurm"
    shutil.rmtree(work, ignore_errors=True)
    (work / "bin").mkdir(parents=True)
    (work / "digest.sbatch").write_text(sbatch_file())
    redline = work / "bin" / "redline"
    redline.write_text(f'#!/bin/sh\nexec {sys.executable} -m redline "$@"\n')
    redline.chmod(0o755)
    (work / "traces").symlink_to(job.traces)
    with slurm_node(work / "node", cpus=job.jobs) as environment:
        path = f"{redline.parent}:{os.environ['PATH']}"
        cost = cost_of(
            ["sbatch", "--wait", "digest.sbatch"], work, {**environment, "PATH": path, "REDLINE_CACHE": "off"}
        )
    shutil.move(work / "digests", job.digests("slurm"))
    return cost


def _told(path: Path) -> str:
    """What of the job is in the result."""
    result = json.loads(path.read_text())
    return f"{len(result['ranks'])} ranks, {len(result['failures'])} failures"


def _are_same(job: Job, names: list[str]) -> bool:
    different = [name for name in names if job.result(name).read_bytes() != job.result(names[0]).read_bytes()]
    if names:
        print(f"{'DIFFERENT' if different else 'same'} JSON: {', '.join(names)}", flush=True)
    return not different


if __name__ == "__main__":
    sys.exit(main())
