"""The rows of one window of a job: its diagnosis and findings as columns, one row for each rank."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import isnan
from typing import Any

import numpy as np

from redline.capture.run_record import RunRecord
from redline.findings.finding import Finding
from redline.lake.extra import pyarrow
from redline.lake.labels import JobLabels, represented_hours
from redline.lake.schema import ACCOUNT_COLUMNS, MOST_OPERATORS, arrow_schema
from redline.ledger.accounts import ACCOUNTS
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.lateness import LateRank
from redline.ledger.rank.digest import Digest

Struct = dict[str, Any]


def rows_of(
    diagnosis: Diagnosis,
    findings: Sequence[Finding],
    labels: JobLabels,
    *,
    run: RunRecord | None,
    added_ns: int,
) -> Any:
    """An Arrow table in the schema of the lake; `labels` name the job."""
    ranks = diagnosis.ranks
    columns: dict[str, Any] = {
        "added_ns": [added_ns] * len(ranks),
        **{name: [getattr(labels, name)] * len(ranks) for name in ("job", "team", "model", "cluster")},
        **_origins(diagnosis),
        **_times(ranks),
        **_lateness(diagnosis),
        "findings": [_gains(findings)] * len(ranks),
        "operators": [list(_operators(rank)) for rank in ranks],
    }
    hours = [represented_hours(labels, run, _length_ns(rank)) for rank in ranks]
    columns["gpu_hours"] = [of_rank.hours for of_rank in hours]
    columns["hours_from"] = [of_rank.hours_from for of_rank in hours]
    columns["digest_id"] = digest_ids(columns["job"], columns["rank"], columns["start_ns"])
    schema = arrow_schema()
    return pyarrow().table([pyarrow().array(columns[field.name], field.type) for field in schema], schema=schema)


def digest_ids(jobs: Sequence[str], ranks: Sequence[int], starts_ns: Sequence[int]) -> list[int]:
    """A number for each digest: the same whenever, and in whatever company, it is added."""
    texts = (f"{job}\0{rank}\0{start}" for job, rank, start in zip(jobs, ranks, starts_ns, strict=True))
    hashes = (hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest() for text in texts)
    return [int.from_bytes(number, "little", signed=True) for number in hashes]


def _length_ns(rank: Digest) -> int:
    return rank.window_ns[1] - rank.window_ns[0]


def _origins(diagnosis: Diagnosis) -> dict[str, list[Any]]:
    ranks = diagnosis.ranks
    return {
        "rank": [rank.origin.rank for rank in ranks],
        "node": [rank.origin.host for rank in ranks],
        "world_size": [diagnosis.world_size] * len(ranks),
        "ranks": [len(ranks)] * len(ranks),
        "device": [rank.facts.device_name or rank.facts.device.upper() for rank in ranks],
        "machine": [rank.facts.machine for rank in ranks],
        "synthetic": [bool(rank.origin.synthetic) for rank in ranks],
    }


def _times(ranks: Sequence[Digest]) -> dict[str, Any]:
    accounts = np.array([rank.ledger.steps.sum(axis=0) for rank in ranks], np.int64).reshape(-1, len(ACCOUNTS))
    steps = np.array([len(rank.ledger.start_ns) for rank in ranks], np.int32)
    in_steps_ns = accounts.sum(axis=1)
    return {
        "start_ns": [rank.zero_ns + rank.window_ns[0] for rank in ranks],
        "end_ns": [rank.zero_ns + rank.window_ns[1] for rank in ranks],
        "steps": steps,
        "step_ns": in_steps_ns // np.maximum(steps, 1),
        "in_steps_ns": in_steps_ns,
        "outside_ns": [int(rank.ledger.outside.sum()) for rank in ranks],
        **{name: accounts[:, number] for number, name in enumerate(ACCOUNT_COLUMNS)},
    }


def _lateness(diagnosis: Diagnosis) -> dict[str, list[Any]]:
    late: dict[int, LateRank] = {}
    if diagnosis.lateness is not None:
        late = {late_rank.rank: late_rank for late_rank in diagnosis.lateness.ranks}
    by_rank = [late.get(rank.origin.rank) for rank in diagnosis.ranks]
    return {
        "caused_ns": [0 if of_rank is None else of_rank.caused_ns for of_rank in by_rank],
        "last_at": [0 if of_rank is None else of_rank.last for of_rank in by_rank],
        "late_ns": [0 if of_rank is None else of_rank.late_ns for of_rank in by_rank],
        "late_cause": ["" if of_rank is None else of_rank.cause for of_rank in by_rank],
    }


def _gains(findings: Sequence[Finding]) -> list[Struct]:
    return [
        {"code": finding.code, "alone_share": finding.alone_share, "bound_share": finding.share}
        for finding in findings
        if not finding.is_void
    ]


def _operators(rank: Digest) -> Iterator[Struct]:
    """The longest, over all shapes; the roof is known only where it is for every shape."""
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0, 0.0])
    for row in rank.kernels:
        total = sums[row.operator or row.kernel, row.dtype]
        total[0] += row.calls
        total[1] += row.time_ns
        total[2] += row.roof_ns if row.known else float("nan")
    longest = sorted(sums.items(), key=lambda item: (-item[1][1], item[0]))[:MOST_OPERATORS]
    for (operator, dtype), (calls, time_ns, roof_ns) in longest:
        known_ns = None if isnan(roof_ns) else min(round(roof_ns), int(time_ns))
        yield {"operator": operator, "dtype": dtype, "calls": calls, "time_ns": time_ns, "roof_ns": known_ns}
