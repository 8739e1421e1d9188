"""What a user does with the result of a search: commands to type, what each of them is for, and lines to paste."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from redline.capture.levers import parse_lever
from redline.report.language import _, listed, spoken
from redline.report.tune.ladder import ladder_rows
from redline.trials.lever_pages import lever_page_of
from redline.tuning.script_diff import UnplacedLever
from redline.tuning.tune_result import TuneResult

_SETTINGS = "tuned.toml"
_PATCHES = (".diff", ".patch")


def next_steps(result: TuneResult) -> Iterator[tuple[str, str]]:
    """What for, and what to type; none without a rung, or where the whole was measured and is not better."""
    if not is_worth_keeping(result):
        return
    settings = _written(result, _SETTINGS) or str(result.folder / _SETTINGS)
    command = f"redline run --with {shlex.quote(settings)} -- {result.command}"
    yield _("to run it with all of them, the script unchanged"), command
    for patch in (path for path in result.written if path.endswith(_PATCHES)):
        placed = listed((result.diff.placed if result.diff else ()) or result.ladder.levers)
        yield _("to put {levers} into your own files").format(levers=placed), f"git apply {shlex.quote(patch)}"


def pasted_levers(result: TuneResult) -> list[UnplacedLever]:
    """What is left to do beside the patch, in the language that is spoken now; the search wrote it in English."""
    if result.diff is None or not is_worth_keeping(result):
        return []
    return [
        lever
        if lever.is_line
        else replace(lever, lines=lever_page_of(parse_lever(lever.lever).kind.name, spoken()).keep)
        for lever in result.diff.unplaced
    ]


def pasted_sentence(lever: UnplacedLever) -> str:
    values = {"lever": lever.lever, "why": lever.why}
    if lever.is_line:
        return _("{lever} goes before the command ({why})").format(**values)
    return _("{lever} has to be written by hand ({why}); its page has the lines").format(**values)


def is_worth_keeping(result: TuneResult) -> bool:
    is_unmeasured = result.ladder.whole is None and result.ladder.whole_memory is None
    return bool(result.ladder.rungs) and (is_unmeasured or ladder_rows(result).is_proven)


def _written(result: TuneResult, name: str) -> str:
    return next((path for path in result.written if Path(path).name == name), "")
