"""What a user does with the result of a search: commands to type, and what each of them is for."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from redline.report.language import _
from redline.report.tune.ladder import ladder_rows
from redline.tuning.tune_result import TuneResult

_SETTINGS = "tuned.toml"
_PATCHES = (".diff", ".patch")


@dataclass(frozen=True, kw_only=True)
class NextStep:
    """One thing to do."""

    why: str
    command: str


def next_steps(result: TuneResult) -> Iterator[NextStep]:
    """In the order in which people do them; none without a rung, or where the whole was measured and is not better."""
    if not result.ladder.rungs or not (ladder_rows(result).is_proven or _is_unmeasured(result)):
        return
    settings = _written(result, _SETTINGS) or str(result.folder / _SETTINGS)
    yield NextStep(
        why=_("to run it with all of them, the script unchanged"),
        command=f"redline run --with {shlex.quote(settings)} -- {result.command}",
    )
    for patch in (path for path in result.written if path.endswith(_PATCHES)):
        yield NextStep(why=_("to put them into your own files"), command=f"git apply {shlex.quote(patch)}")


def _is_unmeasured(result: TuneResult) -> bool:
    return result.ladder.whole is None and result.ladder.whole_memory is None


def _written(result: TuneResult, name: str) -> str:
    return next((path for path in result.written if Path(path).name == name), "")
