"""What `redline run --digests` costs a job, and whether it leaves anything behind when it is always on.

    python -m bench.fleet.source size                  CPU time and size of a digest, by the size of its trace
    python -m bench.fleet.source soak                  60 windows of two gloo ranks: memory, files, threads, losses
    python -m bench.fleet.source soak --windows 6 --period-s 600      an hour, a window every 10 minutes
    python -m bench.fleet.source overhead --pairs 8    runs with and without, in turns

Each prints JSON. On a machine that others use, believe CPU time and counts; step times carry their load.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

JOB = Path(__file__).parent / "source_job.py"
TORCHRUN = ("--standalone", "--nproc-per-node", "2")
QUIET = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}
WARM_UP, BEFORE_END = 0.3, 0.97  # of the samples: what is before and after is left out
MOST_GROWTH = 0.01  # of the memory of a process, from one half to the next
EVENTS = (4_000, 40_000, 400_000)
Json = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("size", "soak", "overhead"))
    parser.add_argument("--windows", type=int, default=60)
    parser.add_argument("--period-s", type=float, default=10.0, help="from one window to the next, about")
    parser.add_argument("--step-s", type=float, default=0.1, help="length of a step of the soak, about")
    parser.add_argument("--events", type=int, nargs="*", default=EVENTS, help="of the traces whose digest is measured")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=1500, help="of each run of a pair, with a window every 60 steps")
    parser.add_argument("--folder", type=Path, help="to keep the files in")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.folder or Path(scratch)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        if options.what == "size":
            print(json.dumps(sizes(folder, options.events), indent=1))
        elif options.what == "overhead":
            print(json.dumps(overhead(folder, options.pairs, options.steps), indent=1))
        else:
            told = soak(folder, options.windows, options.period_s, options.step_s)
            print(json.dumps(told, indent=1))
            return 0 if told["flat"] and told["losses identical"] else 1
    return 0


# --- how much a digest costs ------------------------------------------------------------------------------------------


def sizes(folder: Path, event_counts: Sequence[int]) -> list[Json]:
    """Digests of synthetic traces by the process that a watcher starts, with the time that starting takes."""
    from redline.verbs.digest_child import digest_program

    told = []
    for events in event_counts:
        trace = _synthetic(folder / str(events), events)
        cpu_s = []
        for _ in range(3):
            before = os.times()
            task = {"folder": str(folder), "digest": [[str(trace.relative_to(folder)), f"d/{events}.digest"]]}
            done = subprocess.run([*digest_program(), json.dumps(task)], capture_output=True, check=True)
            after = os.times()
            spent_s = after.children_user + after.children_system - before.children_user - before.children_system
            cpu_s.append((spent_s, json.loads(done.stdout)))
        spent_s, line = min(cpu_s, key=lambda sample: sample[0])
        told.append(
            {
                "events": events,
                "trace_bytes": trace.stat().st_size,
                "digest_bytes": line["size_bytes"],
                "cpu_s": round(line["cpu_ns"] / 1e9, 3),
                "cpu_s_with_start": round(spent_s, 3),
            }
        )
    return told


def _synthetic(folder: Path, events: int) -> Path:
    """A trace of one rank of two that exchange gradients, with about so many events."""
    from tests.support.traces.synthetic import JobSpec, simulate_job, write_rank

    folder.mkdir(exist_ok=True)
    return write_rank(simulate_job(JobSpec(ranks=2, events_per_rank=events)), 1, folder).path


# --- always on --------------------------------------------------------------------------------------------------------


def soak(folder: Path, windows: int, period_s: float, step_s: float) -> Json:
    """The same job bare and watched; what watcher and ranks hold, sampled from outside from window to window."""
    every = max(10, round(period_s / step_s))
    steps = every * windows + 20
    job = [str(JOB), "--steps", str(steps)]
    if len(_losses(folder / "bare.0")) < 4 * steps:  # a folder that was kept may have it
        bare = ["-m", "torch.distributed.run", *TORCHRUN, *job, "--losses", str(folder / "bare")]
        subprocess.run([sys.executable, *bare], check=True, env=_environment())
    options = ["-q", "--digests", "--keep-traces", "2", "--every", str(every - 4), "--budget", "100%"]
    run = ["-m", "redline", "run", *options, "-o", str(folder / "run"), *TORCHRUN, "--", *job]
    began_s = time.monotonic()
    words = [sys.executable, *run, "--losses", str(folder / "watched"), "--pause-s", str(step_s)]
    with subprocess.Popen(words, env=_environment()) as watcher:
        samples = _samples(watcher, max(1.0, period_s / 4))
    wall_s = time.monotonic() - began_s
    record = json.loads((folder / "run" / "run.json").read_text())
    same = [_losses(folder / f"watched.{rank}") == _losses(folder / f"bare.{rank}")[: 4 * steps] for rank in (0, 1)]
    held = {who: _held(of_process) for who, of_process in samples.items()}
    digests = {name: value for name, value in record["digests"].items() if name != "newest"}
    return {
        "windows": max(digest["window"] for digest in record["digests"]["newest"]),
        "steps": steps,
        "wall_s": round(wall_s, 1),
        "exit code": watcher.returncode,
        "losses identical": all(same),
        "losses compared": 2 * steps,
        "flat": all(_is_flat(of_process) for of_process in held.values()),
        "held": held,
        "digests": digests,
        "watcher_cpu_s": round(record["watcher_cpu_ns"] / 1e9, 2),
        "notes": record["notes"],
    }


def _losses(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


Sample = tuple[float, int, int, int]  # when, anonymous memory in KiB, open files, threads


def _samples(watcher: "subprocess.Popen[bytes]", every_s: float) -> dict[str, list[Sample]]:
    samples: dict[str, list[Sample]] = {}
    while watcher.poll() is None:
        for who, pid in {"watcher": watcher.pid, **_ranks(watcher.pid)}.items():
            sample = _sample(pid)
            if sample is not None:
                samples.setdefault(who, []).append(sample)
        time.sleep(every_s)
    return samples


def _ranks(watcher: int) -> dict[str, int]:
    """The processes of the job that train: children of torchrun, which is the watcher's."""
    ranks = [rank for torchrun in _children(watcher) for rank in _children(torchrun)]
    return {f"rank {_rank(pid)}": pid for pid in ranks if _rank(pid)}


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _rank(pid: int) -> str:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    return next((text[5:].decode() for text in variables if text.startswith(b"RANK=")), "")


def _sample(pid: int) -> Sample | None:
    try:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        files = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208
    except OSError:
        return None
    if "RssAnon" not in status:  # it is about to be gone
        return None
    return time.monotonic(), int(status["RssAnon"].split()[0]), files, int(status["Threads"])


def _held(samples: Sequence[Sample]) -> Json:
    """The median of each half after warm-up and before the end: while a window is open or digested, there is more."""
    settled = samples[int(WARM_UP * len(samples)) : int(BEFORE_END * len(samples))]
    halves = settled[: len(settled) // 2], settled[len(settled) // 2 :]
    return {
        "samples": len(samples),
        "anonymous_kib": [median(sample[1] for sample in half) for half in halves],
        "files": [median(sample[2] for sample in half) for half in halves],
        "threads": [median(sample[3] for sample in half) for half in halves],
    }


def _is_flat(held: Json) -> bool:
    first_kib, second_kib = held["anonymous_kib"]
    same = all(held[what][1] <= held[what][0] for what in ("files", "threads"))
    return same and second_kib <= (1 + MOST_GROWTH) * first_kib


# --- overhead ---------------------------------------------------------------------------------------------------------


def overhead(folder: Path, pairs: int, steps: int) -> Json:
    """Runs of one rank with a window every 60 steps, with and without digests, in turns: the mean step of each."""
    ratios, cpu_ratios, cpu_s, busy = [], [], [], []
    for pair in range(pairs):
        steps_ns, job_cpu_s = {}, {}
        for digests in random.Random(pair).sample((True, False), 2):
            record = _overhead_run(folder / f"{pair}-{digests}", steps, digests)
            steps_ns[digests] = record["ranks"][0]["step_mean_ns"]
            job_cpu_s[digests] = float((folder / f"{pair}-{digests}.0.cpu").read_text())
            if digests:
                made = record["digests"]
                cpu_s.append(made["cpu_ns"] / 1e9 / max(made["written"], 1))
                busy.append(made["cpu_ns"] / record["wall_ns"])
        ratios.append(steps_ns[True] / steps_ns[False])
        cpu_ratios.append(job_cpu_s[True] / job_cpu_s[False])
    return {
        "pairs": pairs,
        "mean step, with over without": _ratio(ratios),
        "CPU time of the job, with over without": _ratio(cpu_ratios),
        "cpu_s per digest": round(median(cpu_s), 3),
        "share of a core that digesting used": round(median(busy), 4),
    }


def _ratio(ratios: Sequence[float]) -> Json:
    drawn = random.Random(0)
    means = sorted(geometric_mean(drawn.choices(ratios, k=len(ratios))) for _ in range(2000))
    return {
        "geometric mean": round(geometric_mean(ratios), 4),
        "95 % interval": [round(means[50], 4), round(means[-51], 4)],
        "of each pair": [round(ratio, 4) for ratio in ratios],
    }


def _overhead_run(folder: Path, steps: int, digests: bool) -> Json:
    options = ["-q", "--every", "60", "--budget", "100%", *["--digests"] * digests]
    job = [str(JOB), "--steps", str(steps), "--layers", "12", "--losses", f"{folder}.losses"]
    words = [sys.executable, "-m", "redline", "run", *options, "-o", str(folder), "--", *job]
    subprocess.run(words, check=True, env=_environment())
    content: Json = json.loads((folder / "run.json").read_text())
    return content


def _environment() -> dict[str, str]:
    return {**os.environ, **QUIET}


if __name__ == "__main__":
    sys.exit(main())
