"""The result of `inspect` as JSON for machines; docs/reference/inspect.md describes every field."""

from typing import Any

from redline.artifacts import Envelope
from redline.ranks.job import Job
from redline.ranks.summary import RankSummary
from redline.report.json_text import json_text
from redline.timeline.problems import Problem

KIND = "inspection"
SCHEMA_VERSION = 1


def render(job: Job) -> str:
    return json_text(as_record(job))


def as_record(job: Job) -> dict[str, Any]:
    envelope = Envelope(
        kind=KIND,
        schema_version=SCHEMA_VERSION,
        made_by="redline inspect",
        synthetic=any(bool(rank.metadata.synthetic) for rank in job.ranks),
    )
    return {
        **envelope.to_dict(),
        "world_size": job.world_size,
        "missing_ranks": list(job.missing),
        "double_ranks": list(job.doubles),
        "clocks": {
            "aligned_on_collectives": job.clocks.operations,
            "worst_residual_ns": job.clocks.worst_ns,
            "trusted": job.clocks.trusted,
            "ranks_alone": [job.ranks[index].rank for index in job.clocks.alone],
        },
        "ranks": [_rank(job, index) for index in range(len(job.ranks))],
        "failures": [{"path": failure.path, "message": failure.message} for failure in job.failures],
    }


def _rank(job: Job, index: int) -> dict[str, Any]:
    rank = job.ranks[index]
    return {
        "rank": rank.rank,
        "rank_origin": rank.rank_origin,
        "altered": list(rank.changes),
        "path": rank.source.path,
        "member": rank.source.member,
        "devices": list(rank.device_names),
        "backend": rank.metadata.backend,
        "versions": dict(rank.metadata.versions),
        "recorded": list(rank.metadata.recorded),
        "start_unix_ns": rank.start_ns,
        "window_ns": rank.window_ns,
        "device_busy_ns": rank.busy_ns,
        "communication_ns": rank.communication_ns,
        "step_anchor": rank.step_anchor,
        "step_ns": list(rank.step_ns),
        "spans_by_kind": dict(rank.kinds),
        "events_in_file": dict(rank.source.events),
        "inflated_bytes": rank.source.inflated_bytes,
        "clock_offset_ns": job.clocks.offset_ns[index],
        "clock_residual_ns": job.clocks.residual_ns[index],
        "coverage": _coverage(rank),
        "problems": [_problem(problem) for problem in rank.source.problems],
    }


def _coverage(rank: RankSummary) -> dict[str, int]:
    coverage = rank.coverage
    return {
        "device_work": coverage.pieces,
        "device_work_ns": coverage.time_ns,
        "with_launch": coverage.with_launch,
        "with_launch_ns": coverage.with_launch_ns,
        "with_operator": coverage.with_operator,
        "with_operator_ns": coverage.with_operator_ns,
        "graph_launches": coverage.graph_launches,
        "from_graphs": coverage.from_graphs,
    }


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "reason": problem.reason.code,
        "effect": str(problem.reason.effect),
        "count": problem.count,
        "first_offset": problem.first_offset,
        "example": problem.example,
    }
