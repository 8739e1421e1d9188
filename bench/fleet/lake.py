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
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.fleet.made_lake import FleetShape, JobOnNodes, job_rows, jobs_of, make_lake, templates
from redline.lake.parts import compact, parts_of, write_part
from redline.lake.questions import QUESTIONS, JudgedNodes, judged_nodes
from redline.verbs.lake import ask_lake

SHAPE = FleetShape(digests=100_000, jobs=1000, nodes=500, bad=tuple(range(17, 500, 50)))
RANKS = 64  # of the job of a writer


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fleet.lake", description=__doc__.partition("\n")[0])
    parser.add_argument("--lake", type=Path, help="folder to keep the lake in (default: a temporary one)")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", choices=("lake", "seeds", "writers"), help="one part of it")
    parser.add_argument("--writer", nargs=3, metavar=("LAKE", "JOB", "WINDOWS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.writer:
        write(Path(options.writer[0]), int(options.writer[1]), int(options.writer[2]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        lake = options.lake or Path(folder) / "lake"
        parts: dict[str, Callable[[], Iterator[str]]] = {
            "lake": lambda: _of_lake(lake),
            "seeds": lambda: _over_seeds(options.seeds),
            "writers": lambda: _of_writers(Path(folder), options.kills),
        }
        for name, lines in parts.items():
            for line in lines() if options.only in (None, name) else ():
                print(line, flush=True)
    return 0


def _of_lake(lake: Path) -> Iterator[str]:
    if not lake.exists():
        began_s = time.process_time()
        make_lake(lake, SHAPE)
        yield f"made in {time.process_time() - began_s:.0f} s of CPU time"
    parts = parts_of(lake)
    size_bytes = sum(part.path.stat().st_size for part in parts)
    yield f"size: {size_bytes / SHAPE.digests:.0f} B per digest, {size_bytes / 1e6:.1f} MB in {len(parts)} files"
    named = {row[0] for row in ask_lake(lake, "nodes", top=1000).answer.rows}
    planted = {f"node-{node:05d}" for node in SHAPE.bad}
    yield f"late nodes: {len(named & planted)} of {len(planted)} planted ones named, {len(named - planted)} false"
    for question in QUESTIONS:
        yield _timed(lake, question)


def _of_writers(folder: Path, kills: int) -> Iterator[str]:
    yield killed_writers(folder / "killed", kills)
    yield two_writers(folder / "two")


def _timed(lake: Path, question: str) -> str:
    walls, cpus = [], []
    for _ in range(3):
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        ask_lake(lake, question, job="job-000007", price=2.5)
        walls.append(time.perf_counter() - wall_s)
        cpus.append(time.process_time() - cpu_s)
    return f"question {question}: {min(walls):.2f} s (of CPU time {min(cpus):.2f} s), the best of 3"


# --- late nodes -------------------------------------------------------------------------------------------------------


def _over_seeds(seeds: int) -> Iterator[str]:
    for cluster, times in ((500, None), (500, 3.0), (500, 6.0), (1300, None), (1300, 3.0), (1300, 6.0)):
        found = false = 0
        for seed in range(seeds):
            bad = () if times is None else tuple(range(17, cluster, cluster // 10))
            nodes = judged(replace(SHAPE, nodes=cluster, bad=bad, times_as_late=times or 1.0, seed=seed))
            names = {nodes.nodes[place] for place in np.flatnonzero(nodes.late)}
            planted = names & {str(node) for node in bad}
            found, false = found + len(planted), false + len(names) - len(planted)
        late = f"{times:g} times as late" if times else "no late node"
        of_all = 10 * seeds if times else 0
        yield f"{seeds} seeds, {cluster:,} nodes, {late}: {found} of {of_all} named, {false} false ones"


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
    (template,) = templates(1)
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
        with started(lake, number, 10_000) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(chosen.uniform(0, 1.0))
            process.send_signal(signal.SIGKILL)
            said = 1 + len(process.stdout.read().splitlines())
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
        "SELECT min(digests), max(digests), count(*) FROM (SELECT start_ns // 600000000000 AS number, "
        f"count(*) AS digests, count(DISTINCT rank) FROM digests WHERE job = 'job-{number:06d}' GROUP BY number)"
    )
    ((least, most, count),) = ask_lake(lake, sql=sql).answer.rows
    assert (least, most) == (RANKS, RANKS), (least, most)
    assert isinstance(count, int)
    assert count >= windows, (count, windows)


if __name__ == "__main__":
    sys.exit(main())
