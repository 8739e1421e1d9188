"""What a file is that is given as a recording: files of Redline that are none are refused with what to give instead."""

import re
from collections.abc import Iterable
from pathlib import Path

from redline.artifacts import is_report, read_beginning
from redline.errors import InputError
from redline.hardware.profile import KIND as PROFILE
from redline.storage import path_of

_HEAD_BYTES = 4096
_KIND = re.compile(rb'\s*\{\s*"kind":\s*"([a-z-]{1,40})",.{1,2000}"redline_version":\s*"', re.DOTALL)
_STEP_OF_PLAN = "`redline plan train ... -o plan.json.gz` writes it"
_INSTEAD = {
    PROFILE: "a profile, not a recording; `redline compare` takes two profiles, and with recordings `machine=...` one",
    "training-plan": f"figures of a plan, not its step; give that: {_STEP_OF_PLAN}",
    "serving-plan": "a plan of serving, which has no step; only plans of training can be compared",
    "run": "the record of a run; give the folder that it is in",
}
_REPORTS = ("diagnosis", "inspection", "comparison", "trial", "hardware", "plan-validation", "calibration-comparison")


def kind_of(path: str | Path) -> str:
    """As the file itself says, where it is JSON that Redline wrote; else ""."""
    head = _KIND.match(_head(path_of(path)))
    return head[1].decode() if head else ""


def is_profile(path: str | Path) -> bool:
    return kind_of(path) == PROFILE


def refuse_reports(paths: Iterable[str | Path]) -> None:
    """Raise InputError for the first file that is no recording but something else of Redline."""
    for path in paths:
        kind = kind_of(path)
        if kind in _INSTEAD:
            raise InputError(f"{path}: {_INSTEAD[kind]}")
        if kind in _REPORTS or (not kind and is_report(path_of(path))):
            raise InputError(
                f"{path}: a report of Redline, not a recording; give the traces, or the step of a plan: {_STEP_OF_PLAN}"
            )


def _head(path: Path) -> bytes:
    """Nothing of what is no ordinary file: whoever reads it says why."""
    try:
        return read_beginning(path, _HEAD_BYTES)
    except (InputError, OSError, ValueError):
        return b""
