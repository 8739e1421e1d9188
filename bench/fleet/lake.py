"""What the lake promises, measured: `python -m bench.fleet.lake`.

    size        bytes for each of 100,000 digests of 1,000 jobs
    questions   the time of each question that has a name
    late nodes  of 10 that were planted, and false ones in lakes that have none, over 20 seeds
    kills       20 writers ended by SIGKILL at random moments: every window whole, and every one reported is there
    writers     two writers of the same and of different windows at once

How the rows are made is said in `bench/fleet/made_lake.py`. The 20 seeds are tested on the columns that the question
takes from the lake, without writing 20 lakes.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.fleet.made_lake import FleetShape, JobOnNodes, job_rows, jobs_of, make_lake, templates
from redline.lake.compact import compact
from redline.lake.late_nodes import JudgedNodes, judged_nodes
from redline.lake.parts import parts_of, write_part
from redline.lake.questions import QUESTIONS
from redline.verbs.lake import ask_lake

SHAPE = FleetShape(digests=100_000, jobs=1000, nodes=1300, bad=tuple(range(17, 1300, 130)))
RANKS = 64  # of the job of a writer


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fleet.lake", description=__doc__.partition("\n")[0])
    parser.add_argument("--lake", type=Path, help="folder to keep the lake in (default: a temporary one)")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--writer", nargs=3, metavar=("LAKE", "JOB", "WINDOWS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.writer:
        write(Path(options.writer[0]), int(options.writer[1]), int(options.writer[2]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        lake = options.lake or Path(folder) / "lake"
        for line in _measured(lake, options.kills, options.seeds):
            print(line, flush=True)
    return 0


def _measured(lake: Path, kills: int, seeds: int) -> Iterator[str]:
    if not lake.exists():
        began_s = time.process_time()
        make_lake(lake, SHAPE)
        yield f"made in {time.process_time() - began_s:.0f} s of CPU time"
    parts = parts_of(lake)
    size_bytes = sum(part.path.stat().st_size for part in parts)
    yield f"size: {size_bytes / SHAPE.digests:.0f} B per digest, {size_bytes / 1e6:.1f} MB in {len(parts)} files"
    for question in QUESTIONS:
        yield _timed(lake, question)
    named = {row[0] for row in ask_lake(lake, "nodes", top=1000).answer.rows}
    planted = {f"node-{node:05d}" for node in SHAPE.bad}
    yield f"late nodes: {len(named & planted)} of {len(planted)} planted ones named, {len(named - planted)} false"
    yield _over_seeds(seeds)
    with tempfile.TemporaryDirectory() as folder:
        yield killed_writers(Path(folder) / "lake", kills)
    with tempfile.TemporaryDirectory() as folder:
        yield two_writers(Path(folder) / "lake")


def _timed(lake: Path, question: str) -> str:
    walls, cpus = [], []
    for _ in range(3):
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        ask_lake(lake, question, job="job-000007", price=2.5)
        walls.append(time.perf_counter() - wall_s)
        cpus.append(time.process_time() - cpu_s)
    return f"question {question}: {min(walls):.2f} s (of CPU time {min(cpus):.2f} s), the best of 3"


# --- late nodes -------------------------------------------------------------------------------------------------------


def _over_seeds(seeds: int) -> str:
    none = [judged(FleetShape(digests=100_000, jobs=1000, nodes=1300, seed=seed)) for seed in range(seeds)]
    some = [
        judged(FleetShape(digests=100_000, jobs=1000, nodes=1300, bad=SHAPE.bad, seed=seed)) for seed in range(seeds)
    ]
    planted = {str(node) for node in SHAPE.bad}
    false = sum(int(nodes.late.sum()) for nodes in none)
    named = [{nodes.nodes[place] for place in np.flatnonzero(nodes.late)} for nodes in some]
    found = sum(len(names & planted) for names in named)
    wrong = sum(len(names - planted) for names in named)
    return (
        f"over {seeds} seeds: without a late node, {false} false ones; with {len(planted)}, {found} of "
        f"{len(planted) * seeds} named and {wrong} false ones"
    )


def judged(shape: FleetShape) -> JudgedNodes:
    """The test on the columns that the SQL of the question gives."""
    jobs, nodes, ranks, has_first, lateness = [], [], [], [], []
    for job in jobs_of(shape):
        present, place, count = np.unique(job.node, return_inverse=True, return_counts=True)
        jobs += [str(job.number)] * len(present)
        nodes += present.astype(str).tolist()
        ranks += count.tolist()
        has_first += (present == job.node[0]).tolist()
        lateness += np.bincount(place, weights=job.caused_ns).tolist()
    return judged_nodes(
        jobs, nodes, ranks=np.array(ranks), has_first_rank=np.array(has_first), lateness=np.array(lateness)
    )


# --- writers ----------------------------------------------------------------------------------------------------------


def write(lake: Path, number: int, windows: int) -> None:
    """Add windows of one job, and say after each that it is there."""
    (template, *_) = templates()
    job = JobOnNodes(number=number, node=np.arange(RANKS) // 8, caused_ns=np.zeros(RANKS, np.int64))
    for window in range(windows):
        table = job_rows(template, job, added_ns=time.time_ns(), window=window)
        write_part(lake, table, made_by="bench.fleet")
        compact(lake)
        print(window, flush=True)


def started(lake: Path, number: int, windows: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.fleet.lake", "--writer", str(lake), str(number), str(windows)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def killed_writers(lake: Path, kills: int) -> str:
    """Each adds windows of a job of its own until it is killed."""
    reported = 0
    chosen = random.Random(0)
    for number in range(kills):
        process = started(lake, number, 10_000)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chosen.uniform(0, 1.0))
        process.send_signal(signal.SIGKILL)
        said = 1 + len(process.stdout.read().splitlines())
        process.wait()
        check_whole(lake, number, said)
        reported += said
    return f"kills: {kills} writers killed, {reported} windows reported, all there and whole"


def two_writers(lake: Path, windows: int = 60) -> str:
    """Two of them add the very same windows, and a third those of another job."""
    processes = [started(lake, number, windows) for number in (1, 1, 2)]
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    for number in (1, 2):
        check_whole(lake, number, windows)
    rows = ask_lake(lake, sql="SELECT count(*) AS digests FROM digests").answer.rows
    assert rows == ((2 * windows * RANKS,),), rows
    return f"writers: two added the same {windows} windows and one others, at once: all there, each once"


def check_whole(lake: Path, number: int, windows: int) -> None:
    """Every window of this job has all of its ranks once, and there are at least so many."""
    sql = (
        "SELECT min(digests), max(digests), count(*) FROM (SELECT (start_ns // 600000000000) AS window, "
        f"count(*) AS digests, count(DISTINCT rank) FROM digests WHERE job = 'job-{number:06d}' GROUP BY window)"
    )
    ((least, most, count),) = ask_lake(lake, sql=sql).answer.rows
    assert (least, most) == (RANKS, RANKS), (least, most)
    assert isinstance(count, int)
    assert count >= windows, (count, windows)


if __name__ == "__main__":
    sys.exit(main())
