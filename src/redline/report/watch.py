"""A window of a watched job: a line of text, a line for each alarm, or one line of JSON (docs/reference/watch.md)."""

import json
from collections.abc import Iterator
from typing import Any

from redline.ledger.accounts import Account
from redline.report.data import picked, plain
from redline.report.display import Style, styled
from redline.report.language import _, clauses, listed, marked, ngettext
from redline.report.terminal import as_text
from redline.report.text_parts import clipped, percent, rank_list
from redline.units import format_ns
from redline.watch.follow import UnreadWindow
from redline.watch.job_monitor import Alarm, AlarmKind, WatchedWindow

_MOST_LETTERS = 300
_SENTENCES = {
    AlarmKind.STEP_SLOWER: marked("step slower: {change}"),
    AlarmKind.STEP_FASTER: marked("step faster: {change}"),
    AlarmKind.INPUT_GREW: marked("input grew: {change} of the usual step"),
    AlarmKind.INPUT_RECOVERED: marked("input fell again: {change} of the usual step"),
    AlarmKind.COMMUNICATION_GREW: marked("communication grew: {change} of the usual step"),
    AlarmKind.COMMUNICATION_RECOVERED: marked("communication fell again: {change} of the usual step"),
    AlarmKind.RANK_LATE: marked("rank {ranks} on {host} is late: {change} against the other ranks"),
    AlarmKind.RANK_RECOVERED: marked("rank {ranks} on {host} is faster again: {change} against the other ranks"),
    AlarmKind.NODE_LATE: marked("node {host} is late (ranks {ranks}): {change} against the other ranks"),
    AlarmKind.NODE_RECOVERED: marked("node {host} is faster again (ranks {ranks}): {change} against the other ranks"),
    AlarmKind.WORLD_CHANGED: marked("the job has {after} ranks instead of {before}; usual windows are learned again"),
}


def json_line(window: WatchedWindow | UnreadWindow) -> str:
    """ASCII alone, so that nothing in a name does anything to a terminal."""
    content: dict[str, Any] = {"kind": "watched_window", "schema_version": 1}
    if isinstance(window, UnreadWindow):
        content |= {"window": window.name.text, "restart": window.name.restart, "unread": window.message}
        return json.dumps(content, allow_nan=False) + "\n"
    figures = window.figures
    content |= {
        "window": figures.name.text,
        "restart": figures.name.restart,
        **picked(figures, "start_ns steps step_ns"),
        "accounts_ns": {account.replace(" ", "_"): figures.accounts[account] for account in Account},
        "world_size": figures.world_size,
        "ranks": len(figures.ranks),
        **picked(figures, "silent findings late failures"),
        "usual_step_ns": window.usual_step_ns,
        "smallest_step_change": window.smallest_share,
        "windows_to_learn": window.to_learn,
        "alarms": plain(window.alarms),
    }
    return json.dumps(content, allow_nan=False) + "\n"


def window_text(window: WatchedWindow | UnreadWindow) -> str:
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


# --- alarms -----------------------------------------------------------------------------------------------------------


def alarm_line(alarm: Alarm) -> str:
    return clauses([_said(alarm), *_when(alarm)])


def signed_percent(ratio: float) -> str:
    """+12.4 %, -3.0 %."""
    return f"{100 * ratio:+.1f} %"


def _said(alarm: Alarm) -> str:
    return _sentence(alarm).format(
        change=signed_percent(alarm.change_share),
        ranks=rank_list(alarm.ranks),
        host=clipped(alarm.host, 80) or "?",
        before=alarm.before,
        after=alarm.after,
    )


def _sentence(alarm: Alarm) -> str:
    count = len(alarm.ranks)
    if alarm.kind is AlarmKind.RANK_SILENT:
        return ngettext("rank {ranks} is silent: no digest", "ranks {ranks} are silent: no digests", count)
    if alarm.kind is AlarmKind.RANK_RETURNED:
        return ngettext("rank {ranks} is back", "ranks {ranks} are back", count)
    return _(_SENTENCES[alarm.kind])


def _when(alarm: Alarm) -> Iterator[str]:
    if alarm.is_drift:
        yield _("a slow drift since the windows that were learned")
    elif alarm.since and alarm.kind in _SENTENCES:
        yield _("since {window}").format(window=alarm.since)
