"""A lake of many jobs, made from a few real ones: their rows, with times, nodes, lateness and ids of their own.

Traces of a few jobs are simulated (`tests.support.traces`), digested, combined and made into rows as by
`redline lake add`. Each job of the lake takes the rows of one of these, as often as it has ranks, and enters `add`
where rows are written.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from redline.findings.aggregate import findings_of
from redline.findings.match import match_rules
from redline.job.read_files import JobOptions
from redline.lake.extra import pyarrow
from redline.lake.parts import compact, write_part
from redline.lake.rows import JobLabels, digest_ids, rows_of
from redline.lake.schema import ACCOUNT_COLUMNS, arrow_schema
from redline.ledger.job.combine import combine
from redline.ledger.job.digests import digest_job
from redline.ledger.job.first_screen import outline_of
from tests.support.traces.synthetic import JobSpec, ParallelSizes, Straggler, write_job

RANKS_OF_A_NODE = 8
DAYS = 28
_FIRST_NS = 1_790_000_000_000_000_000
_DAY_NS = 86_400_000_000_000
_SPECS = (
    JobSpec(ranks=8, steps=3),
    JobSpec(
        ranks=8, steps=3, layers=8, layout=ParallelSizes(dp=4, tp=2), stragglers=(Straggler(rank=3, extra_us=900),)
    ),
    JobSpec(ranks=8, steps=3, collectives="all_gather_reduce_scatter", input_us=3000.0),
    JobSpec(ranks=8, steps=3, launch_us=40.0, layers=6, step_compute_us=4000.0),
)

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class FleetShape:
    """How large the lake is, and which nodes are late."""

    digests: int
    jobs: int
    nodes: int
    bad: tuple[int, ...] = ()
    times_as_late: float = 6.0  # what ranks of a bad node cause, over what others cause
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class JobOnNodes:
    """One job: its ranks, where each ran, and what the others waited for it."""

    number: int
    node: I64  # of each rank
    caused_ns: I64


def jobs_of(shape: FleetShape) -> Iterator[JobOnNodes]:
    """Jobs of 8 to 2,048 ranks on nodes that a scheduler chose, with as many digests in all as the shape says."""
    random = np.random.default_rng(shape.seed)
    for number, ranks in enumerate(_sizes(shape, random).tolist()):
        nodes = -(-ranks // RANKS_OF_A_NODE)
        placed = random.choice(shape.nodes, nodes, replace=False)
        node = np.repeat(placed, RANKS_OF_A_NODE)[:ranks]
        noise = random.gamma(0.5, 2e6, ranks) * random.lognormal(0, 1)  # jobs differ more than nodes do
        caused_ns = noise * np.where(np.isin(node, shape.bad), shape.times_as_late, 1.0)
        yield JobOnNodes(number=number, node=node.astype(np.int64), caused_ns=caused_ns.astype(np.int64))


def _sizes(shape: FleetShape, random: np.random.Generator) -> I64:
    sizes = random.choice([8, 16, 64, 128, 256, 1024], shape.jobs, p=[0.35, 0.25, 0.2, 0.12, 0.05, 0.03])
    sizes = np.maximum(sizes * shape.digests // sizes.sum(), 1)
    sizes[int(sizes.argmax())] += shape.digests - int(sizes.sum())
    of_jobs: I64 = sizes.astype(np.int64)
    return of_jobs


def templates(count: int = len(_SPECS)) -> list[Any]:
    """The rows of a few simulated jobs."""
    tables = []
    for number, spec in enumerate(_SPECS[:count]):
        with tempfile.TemporaryDirectory() as folder:
            write_job(spec, Path(folder))
            paths = sorted(Path(folder).glob("*.gz"))
            digested = digest_job(paths, None, JobOptions(use_cache=False, jobs=1), match=match_rules)
        diagnosis = combine(digested.digests)
        findings = findings_of(diagnosis, outline_of(diagnosis)).findings
        tables.append(rows_of(diagnosis, findings, JobLabels(job=str(number)), run=None, added_ns=0))
    return tables


def make_lake(folder: Path, shape: FleetShape) -> None:
    made_of = templates()
    for job in jobs_of(shape):
        table = job_rows(made_of[job.number % len(made_of)], job, added_ns=_FIRST_NS + job.number)
        write_part(folder, table, made_by="bench.fleet")
        compact(folder)


def job_rows(template: Any, job: JobOnNodes, *, added_ns: int, window: int = 0) -> Any:
    """As many rows of a template as the job has ranks, none like another."""
    arrow = pyarrow()
    ranks = len(job.node)
    random = np.random.default_rng((job.number, window))
    rows = template.take(arrow.array(np.arange(ranks) % len(template)))
    slower = random.lognormal(0, 0.3) * random.normal(1, 0.02, ranks).clip(0.9, 1.1)
    accounts = {
        name: (rows[name].to_numpy() * slower * random.normal(1, 0.05, ranks).clip(0.7, 1.3)).astype(np.int64)
        for name in ACCOUNT_COLUMNS
    }
    in_steps_ns = np.sum(list(accounts.values()), axis=0)
    start_ns = _FIRST_NS + (job.number * DAYS // 1000 % DAYS) * _DAY_NS + random.integers(0, 10**6, ranks)
    start_ns += 600_000_000_000 * window
    names = [f"job-{job.number:06d}"] * ranks
    columns: dict[str, Any] = {
        "digest_id": digest_ids(names, range(ranks), start_ns.tolist()),
        "added_ns": np.full(ranks, added_ns),
        "job": names,
        "team": [f"team-{job.number % 13}"] * ranks,
        "model": [f"model-{job.number % 29}"] * ranks,
        "cluster": [f"cluster-{job.number % 3}"] * ranks,
        "rank": np.arange(ranks, dtype=np.int32),
        "node": [f"node-{node:05d}" for node in job.node.tolist()],
        "world_size": np.full(ranks, ranks, np.int32),
        "ranks": np.full(ranks, ranks, np.int32),
        "start_ns": start_ns,
        "end_ns": start_ns + in_steps_ns,
        "in_steps_ns": in_steps_ns,
        "step_ns": in_steps_ns // np.maximum(rows["steps"].to_numpy(), 1),
        "gpu_hours": np.full(ranks, random.gamma(2, 10)),
        "hours_from": ["stated"] * ranks,
        "caused_ns": job.caused_ns,
        "late_ns": job.caused_ns // 7,
        "last_at": random.poisson(3, ranks).astype(np.int32),
        "operators": _scaled(rows["operators"].combine_chunks(), random),
        **accounts,
    }
    schema = arrow_schema()
    arrays = [
        arrow.array(columns[field.name], field.type)
        if field.name in columns and field.name != "operators"
        else columns.get(field.name, rows[field.name])
        for field in schema
    ]
    return arrow.table(arrays, schema=schema)


def _scaled(operators: Any, random: np.random.Generator) -> Any:
    """With times of their own."""
    arrow = pyarrow()
    flat = operators.flatten()
    fields = {field.name: flat.field(place) for place, field in enumerate(flat.type)}
    time_ns = fields["time_ns"].to_numpy(zero_copy_only=False) * random.normal(1, 0.05, len(flat)).clip(0.8, 1.2)
    fields["time_ns"] = arrow.array(time_ns.astype(np.int64))
    structs = arrow.StructArray.from_arrays(list(fields.values()), fields=list(flat.type))
    lengths = np.append(0, np.cumsum(operators.value_lengths().to_numpy(zero_copy_only=False)))
    return arrow.ListArray.from_arrays(arrow.array(lengths, "int32"), structs).cast(operators.type)
