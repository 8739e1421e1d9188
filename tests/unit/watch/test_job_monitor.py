"""Alarms of a job: whose change it is, what is said of it, and what is not."""

from dataclasses import replace

import numpy as np
import pytest

from redline.ledger.accounts import ACCOUNTS, Account
from redline.watch.change_detectors import LEARNING
from redline.watch.job_monitor import Alarm, AlarmKind, JobMonitor, WatchedWindow
from redline.watch.window_figures import WindowFigures, WindowName

RANKS, PER_NODE, STEP_NS = 8, 4, 1e8
CHANGED, WINDOWS = 40, 60


def windows(**grown: float) -> list[WindowFigures]:
    """Of a job in which these change at window 41: rank_5, node_1, input, transfer or step, as shares of a step."""
    random = np.random.default_rng(3)
    made = []
    for number in range(1, WINDOWS + 1):
        now = {name: share * (number > CHANGED) for name, share in grown.items()}
        own = 0.9 * (1 + 0.005 * random.standard_normal(RANKS)) * (1 + now.get("step", 0.0))
        own[5] *= 1 + now.get("rank_5", 0.0)
        own[PER_NODE:] *= 1 + now.get("node_1", 0.0)
        loading, transfer = 0.01 + now.get("input", 0.0), 0.1 + now.get("transfer", 0.0)
        accounts = dict.fromkeys(ACCOUNTS, 0.0)
        accounts |= {Account.INPUT: loading * STEP_NS, Account.TRANSFER: transfer * STEP_NS}
        made.append(
            WindowFigures(
                name=WindowName(restart=0, number=number, text=f"window-{number}"),
                start_ns=number,
                steps=3,
                step_ns=float(STEP_NS * (own.max() + loading + transfer)),
                accounts=accounts,
                world_size=RANKS,
                ranks=np.arange(RANKS),
                hosts=tuple(f"node-{rank // PER_NODE}" for rank in range(RANKS)),
                own_ns=own * STEP_NS,
            )
        )
    return made


def watched(figures: list[WindowFigures]) -> list[WatchedWindow]:
    monitor = JobMonitor()
    return [monitor.add(window) for window in figures]


def alarms(figures: list[WindowFigures]) -> dict[AlarmKind, tuple[str, Alarm]]:
    """Each with the window in which it was said; no kind twice."""
    said = [(window.figures.name.text, alarm) for window in watched(figures) for alarm in window.alarms]
    by_kind = {alarm.kind: (window, alarm) for window, alarm in said}
    assert len(by_kind) == len(said)
    return by_kind


def test_a_healthy_job_has_none() -> None:
    assert not alarms(windows())


def test_a_rank_that_is_late_is_named_with_its_node() -> None:
    said = alarms(windows(rank_5=0.1))
    window, alarm = said[AlarmKind.RANK_LATE]
    assert window == "window-43"
    assert (alarm.since, alarm.ranks, alarm.host) == ("window-41", (5,), "node-1")
    assert alarm.change_share == pytest.approx(0.1, abs=0.02)
    assert set(said) == {AlarmKind.RANK_LATE, AlarmKind.STEP_SLOWER}


def test_a_node_that_is_late_is_named_instead_of_its_ranks() -> None:
    said = alarms(windows(node_1=0.1))
    assert said[AlarmKind.NODE_LATE][1].ranks == (4, 5, 6, 7)
    assert said[AlarmKind.NODE_LATE][1].host == "node-1"
    assert AlarmKind.RANK_LATE not in said


def test_a_rank_that_is_itself_again_has_recovered() -> None:
    figures = windows(rank_5=0.1)
    healthy = [replace(window, name=replace(window.name, number=100 + n)) for n, window in enumerate(windows()[:30])]
    said = alarms(figures + healthy)
    assert said[AlarmKind.RANK_RECOVERED][1].ranks == (5,)
    assert AlarmKind.STEP_FASTER in said


def test_input_and_communication_that_grow_are_told_apart() -> None:
    assert set(alarms(windows(input=0.1))) == {AlarmKind.INPUT_GREW, AlarmKind.STEP_SLOWER}
    said = alarms(windows(transfer=0.1))
    assert set(said) == {AlarmKind.COMMUNICATION_GREW, AlarmKind.STEP_SLOWER}
    assert said[AlarmKind.COMMUNICATION_GREW][1].change_share == pytest.approx(0.1, abs=0.02)


def test_all_ranks_slower_is_a_slower_step_and_nobody_late() -> None:
    assert set(alarms(windows(step=0.2))) == {AlarmKind.STEP_SLOWER}


def test_a_silent_rank_is_named_at_once_and_when_it_is_back() -> None:
    figures = windows()
    for place in (10, 11):
        present = np.arange(RANKS) != 3
        whole = figures[place]
        figures[place] = replace(
            whole,
            silent=(3,),
            ranks=whole.ranks[present],
            own_ns=whole.own_ns[present],
            hosts=tuple(host for host, here in zip(whole.hosts, present.tolist(), strict=True) if here),
        )
    said = alarms(figures)
    assert said[AlarmKind.RANK_SILENT][0] == "window-11"
    assert said[AlarmKind.RANK_SILENT][1].ranks == (3,)
    assert said[AlarmKind.RANK_RETURNED][0] == "window-13"


def test_another_number_of_ranks_is_another_job() -> None:
    figures = windows()
    smaller = [
        replace(window, world_size=4, ranks=window.ranks[:4], hosts=window.hosts[:4], own_ns=window.own_ns[:4])
        for window in windows()
    ]
    said = watched(figures + smaller)
    assert [alarm.kind for window in said for alarm in window.alarms] == [AlarmKind.WORLD_CHANGED]
    assert said[WINDOWS].to_learn == LEARNING - 1
    assert said[WINDOWS].smallest_share is None


def test_it_says_when_it_has_learned_and_what_it_tells() -> None:
    said = watched(windows())
    assert [window.to_learn for window in said[:LEARNING]] == [*range(LEARNING - 1, -1, -1)]
    assert [window.has_learned for window in said].index(True) == LEARNING
    assert all(0.02 < (window.smallest_share or 0) < 0.2 for window in said[LEARNING:])


def test_the_same_windows_give_the_same() -> None:
    figures = windows(rank_5=0.05)
    assert [window.alarms for window in watched(figures)] == [window.alarms for window in watched(figures)]


def test_the_whole_path_of_a_rank_without_a_host() -> None:
    figures = [replace(window, hosts=("",) * RANKS) for window in windows(node_1=0.1)]
    said = watched(figures)
    late = [alarm.ranks for window in said for alarm in window.alarms if alarm.kind is AlarmKind.RANK_LATE]
    assert all(ranks[0] >= PER_NODE for ranks in late)
