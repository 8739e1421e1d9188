"""What an answer cannot know: ranks without a trace, files that were not read, time that no peak can rate."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from redline.mcp.bounded_answer import recorded
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.diagnose.unseen_messages import unseen

_MOST_RANKS = 20


def unknowns_of_job(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of the JSON report of `inspect` or `diagnose`: missing and double ranks, clocks, files that failed."""
    clocks = record["clocks"]
    rows = [
        _ranks("missing_ranks", record["missing_ranks"]),
        _ranks("double_ranks", record["double_ranks"]),
        None if clocks["trusted"] else {"what": "clocks", "says": "clocks of ranks could not be aligned well enough"},
        _ranks("clocks_not_aligned", clocks["ranks_alone"]) if len(record["ranks"]) > 1 else None,
        *(
            {"what": "unread", "file": recorded(row["path"]), "why": recorded(row["message"], 200)}
            for row in record["failures"]
        ),
    ]
    return [row for row in rows if row is not None]


def unknowns_of_diagnosis(result: DiagnoseResult, record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What could not be seen, beside what is not known of the job."""
    ranks = len(result.diagnosis.ranks)
    rated_share = record["verdict"]["rated_share"]
    rows: list[dict[str, Any]] = (
        [] if rated_share >= 1 else [{"what": "unrated", "rated_share_of_kernel_time": rated_share}]
    )
    if record["utilisation"] is None:
        rows.append({"what": "mfu", "says": "not measured: FLOPs or peak are not known"})
    told = {"missing_ranks", "double_ranks", "clocks"}
    for remark, row in zip(result.outline.unseen, record["unseen"], strict=True):
        if row["what"] in told:
            continue
        amounts = {name: row[name] for name in ("ranks", "count", "time_ns", "share") if row[name]}
        detail = {"detail": recorded(remark.detail, 200)} if remark.detail else {}
        text = {} if remark.detail else {"says": unseen(replace(remark, detail=""), ranks)}
        rows.append({"what": row["what"], **amounts, **text, **detail})
    return [*unknowns_of_job(record), *rows]


def _ranks(what: str, ranks: Sequence[int]) -> dict[str, Any] | None:
    return {"what": what, "count": len(ranks), "ranks": list(ranks[:_MOST_RANKS])} if ranks else None
