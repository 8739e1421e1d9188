"""What the record of a run says of the traces in words: which window this is, and what limits it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from redline.launch.captured import Captured
from redline.report.language import _, marked, ngettext
from redline.report.run.run_messages import LOST, told
from redline.report.text_parts import rank_list
from redline.units import format_ns

SLOWED = 1.05  # captured steps that took longer than this many usual ones are said to

ABSENT: Mapping[str, str] = {
    **LOST,
    "not reached": marked("it ended before this window"),
    "not captured": marked("this window was skipped there"),
    "not watched": marked("nothing was recorded of it"),
}


def window_line(one: Captured) -> str:
    """Which window of the run, and which of its steps."""
    if one.is_timed:
        return _(
            "a timed window: no steps were recognised in the run, so shares are of this window, not of a step. "
            "Call redline.step() at the end of each step and run again"
        )
    text = _("window {window:,} of {windows:,}: steps {steps} of {all:,} in the run")
    if one.restart:
        text = _("window {window:,} of {windows:,} after restart {restart:,}: steps {steps} of {all:,}")
    return text.format(window=one.window, windows=one.windows, restart=one.restart, steps=span(one), all=one.run_steps)


def span(one: Captured) -> str:
    last = max(one.first_step, min(one.first_step + one.steps - 1, one.run_steps))  # a cut one may never have ended
    return f"{one.first_step:,}" if last == one.first_step else f"{one.first_step:,}-{last:,}"


def remarks(one: Captured) -> Iterator[str]:
    """What limits a diagnosis of these steps, one sentence each."""
    if one.slowdown is not None and one.slowdown > SLOWED:
        yield _slowed(one)
    if one.cut_short:
        yield told(one.cut_short)
    elif one.steps < one.asked_steps and not one.is_timed:
        yield _("the window was cut short: {steps:,} of {asked:,} steps, the last one maybe incomplete").format(
            steps=one.steps, asked=one.asked_steps
        )
    for absent in one.absent:
        text = ngettext("no trace of rank {ranks}: {why}", "no trace of ranks {ranks}: {why}", len(absent.ranks))
        yield text.format(ranks=rank_list(absent.ranks), why=_(ABSENT.get(absent.why, absent.why)))


def _slowed(one: Captured) -> str:
    text = _(
        "captured steps took {times:.2f} x as long as the other {others:,} ({captured} against {usual}): "
        "recording adds host time"
    )
    if one.condition:
        text = _(
            "captured steps took {times:.2f} x as long as the other {others:,} ({captured} against {usual}): "
            "they were chosen for being slow"
        )
    return text.format(
        times=one.slowdown,
        others=max(0, one.run_steps - one.steps),
        captured=format_ns(one.captured_step_ns or 0),
        usual=format_ns(one.usual_step_ns or 0),
    )
