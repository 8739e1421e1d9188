"""A window as a line of text, and under it a line for each alarm."""

from redline.analysis.accounts import Account
from redline.monitor.follow import UnreadWindow
from redline.monitor.job_monitor import WatchedWindow
from redline.report.display import Style, styled
from redline.report.language import _, listed, ngettext
from redline.report.terminal import as_text
from redline.report.text_parts import clipped, percent
from redline.report.watch.alarm_messages import alarm_line, signed_percent
from redline.units import format_ns

_MOST_LETTERS = 300


def render(window: WatchedWindow | UnreadWindow) -> str:
    if isinstance(window, UnreadWindow):
        text = _("{window}: no digest could be read: {why}").format(window=window.name.text, why=window.message)
        return as_text([[clipped(text.replace("\n", " "), _MOST_LETTERS)]])
    lines = [_figures_line(window)]
    if window.has_learned and window.smallest_share is not None:
        lines.append("  " + _learned_line(window.smallest_share))
    lines += [f"  {styled(alarm_line(alarm), Style.LIMIT)}" for alarm in window.alarms]
    for message in window.figures.failures:
        lines.append("  " + clipped(_("not read: {why}").format(why=message.replace("\n", " ")), _MOST_LETTERS))
    return as_text([lines])


def _figures_line(window: WatchedWindow) -> str:
    figures = window.figures
    parts = [_("step {time}").format(time=_step(window))]
    for text, accounts in (
        (_("input {share}"), (Account.INPUT,)),
        (_("communication {share}"), (Account.TRANSFER,)),
        (_("waiting for other ranks {share}"), (Account.PEER_WAIT,)),
    ):
        parts.append(text.format(share=percent(figures.account_share(*accounts))))
    if figures.findings:
        largest = figures.findings[0]
        parts.append(
            _("{code}: at most {share} of the step").format(code=largest.code, share=percent(largest.gain_share))
        )
    if figures.silent:
        parts.append(_("{present} of {all} ranks").format(present=len(figures.ranks), all=figures.world_size))
    if window.to_learn:
        parts.append(
            ngettext("learning: {count} more window", "learning: {count} more windows", window.to_learn).format(
                count=window.to_learn
            )
        )
    return _("{window}: {figures}").format(window=figures.name.text, figures=listed(parts))


def _step(window: WatchedWindow) -> str:
    time = format_ns(round(window.figures.step_ns))
    if not window.usual_step_ns:
        return time
    return f"{time} ({signed_percent(window.figures.step_ns / window.usual_step_ns - 1)})"


def _learned_line(smallest_share: float) -> str:
    return _("usual windows are known; a step that becomes {share} longer is named within 3 windows").format(
        share=percent(smallest_share)
    )
