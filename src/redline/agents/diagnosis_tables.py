"""Tables of a diagnosis as rows for agents: columns chosen from the JSON report, names marked as data."""

from collections.abc import Callable, Mapping
from typing import Any

from redline.agents.recorded_text import recorded, recorded_fields
from redline.report.diagnose.diagnose_result import DiagnoseResult

Record = Mapping[str, Any]


def table_rows(table: str, result: DiagnoseResult, record: Record) -> list[dict[str, Any]]:
    """All rows of a table of `TABLES`."""
    if table == "steps":
        return _steps(result, record)
    return TABLES[table](record)


def _accounts(record: Record) -> list[dict[str, Any]]:
    return [
        {"account": row["account"], "time_ns": row["time_ns"], "share": row["share"]}
        for row in record["waterfall"]
        if row["time_ns"]
    ]


def _phases(record: Record) -> list[dict[str, Any]]:
    return list(map(dict, record["phases"]))


def _kernels(record: Record) -> list[dict[str, Any]]:
    return [
        {
            **recorded_fields(row, ("operator", "kernel", "shapes")),
            "dtype": recorded(row["dtype"], 20),
            **{name: row[name] for name in ("calls", "kernels", "time_ns", "share_of_roof", "regime")},
        }
        for row in record["kernels"]
    ]


def _collectives(record: Record) -> list[dict[str, Any]]:
    numbers = ("group_size", "payload_bytes", "calls", "residence_ns", "hidden_ns", "exposed_ns", "wait_ns")
    rates = ("typical_ns", "bus_bytes_per_s")
    return [
        {"collective": recorded(row["collective"], 60), **{name: row[name] for name in (*numbers, *rates)}}
        for row in record["collectives"]
    ]


def _ranks(record: Record) -> list[dict[str, Any]]:
    late = {row["rank"]: row for row in (record["lateness"] or {"ranks": []})["ranks"]}
    rows = []
    for rank in record["ranks"]:
        steps = rank["steps"]
        last = late.get(rank["rank"])
        rows.append(
            {
                "rank": rank["rank"],
                **recorded_fields(rank, ("source", "host")),
                **recorded_fields(rank["facts"], ("device_name", "machine")),
                "steps": len(steps),
                "mean_step_ns": sum(step["length_ns"] for step in steps) / len(steps) if steps else None,
                "window_ns": rank["window_ns"],
                "last_at_collectives": last["last"] if last else 0,
                "waiting_caused_ns": last["caused_ns"] if last else 0,
            }
        )
    return rows


def _steps(result: DiagnoseResult, record: Record) -> list[dict[str, Any]]:
    rows = []
    for rank, digest in zip(record["ranks"], result.diagnosis.ranks, strict=True):
        for number, step in enumerate(rank["steps"]):
            start_ns = digest.window_ns[0] + step["start_ns"]
            rows.append(
                {
                    "rank": rank["rank"],
                    "step": number,
                    **({"label": recorded(step["label"], 40)} if step["label"] else {}),
                    "start_ns": start_ns,
                    "end_ns": start_ns + step["length_ns"],
                    "accounts_ns": {account: amount for account, amount in step["accounts"].items() if amount},
                }
            )
    return rows


def _host(record: Record) -> list[dict[str, Any]]:
    return [
        {
            "account": row["account"],
            "kind": row["kind"],
            **recorded_fields(row, ("name", "region", "site")),
            "time_ns": row["time_ns"],
            "times": row["times"],
        }
        for row in record["doing"]
    ]


TABLES: Mapping[str, Callable[[Record], list[dict[str, Any]]]] = {
    "accounts": _accounts,
    "phases": _phases,
    "kernels": _kernels,
    "collectives": _collectives,
    "ranks": _ranks,
    "host": _host,
}
"""By name, as `redline diagnose` calls them; `steps` needs the clock of each rank as well."""
