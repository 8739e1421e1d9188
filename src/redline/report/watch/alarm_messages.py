"""Alarms in words."""

from collections.abc import Iterator

from redline.monitor.alarm import Alarm, AlarmKind
from redline.report.language import _, clauses, marked, ngettext
from redline.report.text_parts import clipped, rank_list

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
