"""What the record of a run says of the traces in words: which window this is, and what limits it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from redline.capture.captured import Captured
from redline.capture.worker.recording.condition import is_of_load
from redline.report.language import _, marked, ngettext
from redline.report.run.run_notes import LOST, translated_note
from redline.report.text_parts import rank_list
from redline.units import format_ns

SLOWED = 1.05  # captured steps that took longer than this many usual ones are said to

ABSENT: Mapping[str, str] = {
    **LOST,
    "not reached": marked("it ended before this window"),
    "not captured": marked("this window was skipped there"),
    "not watched": marked("nothing was recorded of it"),
    "digested": marked("it was deleted once it was digested"),
    "not digested": marked("it was not digested"),
}


def window_line(captured: Captured) -> str:
    """Which window of the run, and which of its steps."""
    if captured.is_timed:
        return _(
            "a timed window: no steps were recognised in the run, so shares are of this window, not of a step. "
            "Call redline.step() at the end of each step and run again"
        )
    text = _("window {window:,} of {windows:,}: steps {steps} of {all:,} in the run")
    if captured.restart:
        text = _("window {window:,} of {windows:,} after restart {restart:,}: steps {steps} of {all:,}")
    return text.format(
        window=captured.window,
        windows=captured.windows,
        restart=captured.restart,
        steps=span(captured),
        all=captured.run_steps,
    )


def span(captured: Captured) -> str:
    last = max(
        captured.first_step, min(captured.first_step + captured.steps - 1, captured.run_steps)
    )  # a cut one may never have ended
    return f"{captured.first_step:,}" if last == captured.first_step else f"{captured.first_step:,}-{last:,}"


def remarks(captured: Captured) -> Iterator[str]:
    """What limits a diagnosis of these steps, one sentence each."""
    if captured.slowdown is not None and captured.slowdown > SLOWED:
        yield _slowed(captured)
    if captured.cut_short:
        yield translated_note(captured.cut_short)
    elif captured.steps < captured.asked_steps and not captured.is_timed:
        yield _("the window was cut short: {steps:,} of {asked:,} steps, the last one maybe incomplete").format(
            steps=captured.steps, asked=captured.asked_steps
        )
    for absent in captured.absent:
        text = ngettext("no trace of rank {ranks}: {why}", "no trace of ranks {ranks}: {why}", len(absent.ranks))
        yield text.format(ranks=rank_list(absent.ranks), why=_(ABSENT.get(absent.why, absent.why)))


def _slowed(captured: Captured) -> str:
    text = _(
        "captured steps took {times:.2f} x as long as the other {others:,} ({captured} against {usual}), by recording "
        "or other load; all shares are of captured steps"
    )
    if is_of_load(captured.condition):
        text = _(
            "captured steps took {times:.2f} x as long as the other {others:,} ({captured} against {usual}): "
            "they were chosen for their load"
        )
    elif captured.condition:
        text = _(
            "captured steps took {times:.2f} x as long as the other {others:,} ({captured} against {usual}): "
            "they were chosen for being slow"
        )
    return text.format(
        times=captured.slowdown,
        others=max(0, captured.run_steps - captured.steps),
        captured=format_ns(captured.captured_step_ns or 0),
        usual=format_ns(captured.usual_step_ns or 0),
    )
