"""What a user does with the result of a search: commands to type, what each of them is for, and lines to paste."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from redline.capture.levers import parse_lever
from redline.report.language import _, listed, spoken
from redline.report.tune.ladder import ladder_rows
from redline.trials.lever_pages import lever_page_of, short_name
from redline.tuning.tune_result import TuneResult

_SETTINGS = "tuned.toml"
_PATCHES = (".diff", ".patch")


@dataclass(frozen=True, kw_only=True)
class NextStep:
    """One thing to do."""

    why: str
    command: str


@dataclass(frozen=True, kw_only=True)
class PastedLever:
    """A lever that no patch makes: how to make it by hand."""

    lever: str
    why: str  # no patch does
    lines: str  # Markdown; one line is as it is typed before the command
    explained_by: str  # a command

    @property
    def is_line(self) -> bool:
        return "\n" not in self.lines


def next_steps(result: TuneResult) -> Iterator[NextStep]:
    """In the order in which people do them; none without a rung, or where the whole was measured and is not better."""
    if not is_worth_keeping(result):
        return
    settings = _written(result, _SETTINGS) or str(result.folder / _SETTINGS)
    yield NextStep(
        why=_("to run it with all of them, the script unchanged"),
        command=f"redline run --with {shlex.quote(settings)} -- {result.command}",
    )
    for patch in (path for path in result.written if path.endswith(_PATCHES)):
        yield NextStep(why=_patch_purpose(result), command=f"git apply {shlex.quote(patch)}")


def pasted_levers(result: TuneResult) -> list[PastedLever]:
    """What is left to do beside the patch, in the language that is spoken now."""
    if result.diff is None or not is_worth_keeping(result):
        return []
    return [
        PastedLever(
            lever=lever.lever,
            why=lever.why,
            lines=lever.lines
            if "\n" not in lever.lines
            else lever_page_of(parse_lever(lever.lever).kind.name, spoken()).keep,
            explained_by=f"redline explain {short_name(parse_lever(lever.lever).kind.name)}",
        )
        for lever in result.diff.unplaced
    ]


def pasted_sentence(lever: PastedLever) -> str:
    """What has to be done for it by hand, and why."""
    values = {"lever": lever.lever, "why": lever.why}
    if lever.is_line:
        return _("{lever} goes before the command ({why})").format(**values)
    return _("{lever} has to be written by hand ({why}); its page has the lines").format(**values)


def is_worth_keeping(result: TuneResult) -> bool:
    is_unmeasured = result.ladder.whole is None and result.ladder.whole_memory is None
    return bool(result.ladder.rungs) and (is_unmeasured or ladder_rows(result).is_proven)


def _patch_purpose(result: TuneResult) -> str:
    if result.diff is None or not result.diff.unplaced:
        return _("to put them into your own files")
    return _("to put {levers} into your own files").format(levers=listed(result.diff.placed))


def _written(result: TuneResult, name: str) -> str:
    return next((path for path in result.written if Path(path).name == name), "")
