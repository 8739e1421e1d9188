"""Alarms in words: every kind has a sentence, in both languages."""

import pytest

from redline.report.language import speaking
from redline.report.watch import alarm_line
from redline.watch.job_monitor import Alarm, AlarmKind


def alarm(kind: AlarmKind, **values: object) -> Alarm:
    shown = {"since": "window-7", "change_share": 0.125, "ranks": (4, 5), "host": "node-1", "before": 8, "after": 4}
    return Alarm(kind=kind, **{**shown, **values})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", list(AlarmKind))
def test_every_kind_is_said_in_both_languages(kind: AlarmKind) -> None:
    english = alarm_line(alarm(kind))
    with speaking("zh"):
        chinese = alarm_line(alarm(kind))
    assert english.isascii()
    assert not chinese.isascii()
    assert "{" not in english + chinese


def test_sentences() -> None:
    assert alarm_line(alarm(AlarmKind.STEP_SLOWER)) == "step slower: +12.5 %; since window-7"
    assert alarm_line(alarm(AlarmKind.RANK_SILENT)) == "ranks 4-5 are silent: no digests"
    drift = alarm(AlarmKind.RANK_LATE, since="", is_drift=True, ranks=(4,), host="")
    assert alarm_line(drift) == (
        "rank 4 on ? is late: +12.5 % against the other ranks; a slow drift since the windows that were learned"
    )
