"""A window as one JSON object on one line; docs/reference/watch.md describes every field."""

import json
from dataclasses import asdict
from typing import Any

from redline.analysis.accounts import Account
from redline.monitor.follow import UnreadWindow
from redline.monitor.job_monitor import WatchedWindow
from redline.monitor.window_figures import WindowFigures

KIND = "watched_window"
_SCHEMA_VERSION = 1


def render(window: WatchedWindow | UnreadWindow) -> str:
    """ASCII alone, so that nothing in a name does anything to a terminal."""
    record: dict[str, Any] = {"kind": KIND, "schema_version": _SCHEMA_VERSION}
    if isinstance(window, UnreadWindow):
        record |= {"window": window.name.text, "restart": window.name.restart, "unread": window.message}
    else:
        record |= _figures(window.figures)
        record |= {
            "usual_step_ns": window.usual_step_ns,
            "smallest_step_change": window.smallest_share,
            "windows_to_learn": window.to_learn,
            "alarms": [{**asdict(alarm), "kind": str(alarm.kind)} for alarm in window.alarms],
        }
    return json.dumps(record, allow_nan=False) + "\n"


def _figures(figures: WindowFigures) -> dict[str, Any]:
    return {
        "window": figures.name.text,
        "restart": figures.name.restart,
        "start_ns": figures.start_ns,
        "steps": figures.steps,
        "step_ns": figures.step_ns,
        "accounts_ns": {account.replace(" ", "_"): figures.accounts[account] for account in Account},
        "world_size": figures.world_size,
        "ranks": len(figures.ranks),
        "silent": list(figures.silent),
        "findings": [asdict(finding) for finding in figures.findings],
        "late": [asdict(late) for late in figures.late],
        "failures": list(figures.failures),
    }
