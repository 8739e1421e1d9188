"""A noisy machine is told, and by what; a system that does not say is not taken for a quiet one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from redline.calibration.calibration_record import Conditions
from redline.calibration.conditions import (
    UNKNOWN,
    Counters,
    Start,
    drop,
    judge,
    read_counters,
    read_frequencies,
    read_load,
    read_quota,
    seen,
    spread,
    start_now,
)
from redline.verbs.calibrate import calibrate
from tests.support.made_calibrations import calibration, collectives

BEFORE = Counters(
    all_s=1000.0, idle_s=500.0, steal_s=10.0, ours_s=5.0, throttled_s=1.0, ran_s=1.0, waited_s=1.0, wall_s=0.0
)
AFTER = Counters(
    all_s=1200.0, idle_s=600.0, steal_s=10.0, ours_s=105.0, throttled_s=1.0, ran_s=20.0, waited_s=1.0, wall_s=100.0
)


def judged(after: Counters = AFTER, **others: float) -> Conditions:
    known = {"load_before": 0.1, "frequency_drop": 0.0, "beat_spread": 0.01, **others}
    return judge(BEFORE, after, processors=2, **known)


def changed(**changes: float) -> Counters:
    return Counters(**{**{name: getattr(AFTER, name) for name in Counters.__dataclass_fields__}, **changes})


def test_a_quiet_machine_has_nothing_to_be_said() -> None:
    found = judged()
    assert found.noisy == ()
    assert (found.steal_share, found.other_share, found.throttled_share) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("name", "share", "found"),
    [
        ("steal", 0.1, judged(changed(steal_s=30.0, ours_s=85.0)).steal_share),
        ("other", 0.2, judged(changed(ours_s=65.0)).other_share),
        ("throttled", 0.05, judged(changed(throttled_s=6.0)).throttled_share),
    ],
)
def test_shares_are_of_the_time_between(name: str, share: float, found: float) -> None:
    assert found == pytest.approx(share), name


@pytest.mark.parametrize(
    ("after", "others", "noisy"),
    [
        (changed(steal_s=30.0, ours_s=85.0), {}, ("steal",)),
        (changed(ours_s=65.0), {}, ("other",)),
        (changed(throttled_s=6.0), {}, ("throttled",)),
        (AFTER, {"load_before": 3.0}, ("load",)),
        (AFTER, {"frequency_drop": 0.3}, ("frequency",)),
        (AFTER, {"beat_spread": 0.2, "load_before": 3.0}, ("load", "beat")),
        (changed(ran_s=20.0, waited_s=3.0), {}, ("waited",)),
        (changed(ran_s=20.0, waited_s=1.4), {}, ()),
    ],
)
def test_a_noisy_machine_is_told_by_what(after: Counters, others: dict[str, float], noisy: tuple[str, ...]) -> None:
    assert judged(after, **others).noisy == noisy


def test_a_system_that_does_not_say_is_unknown_not_quiet() -> None:
    found = judge(Counters(), Counters(wall_s=50.0), load_before=-1, frequency_drop=-1, beat_spread=0.0, processors=2)
    assert (found.steal_share, found.other_share, found.throttled_share) == (UNKNOWN, UNKNOWN, UNKNOWN)
    assert found.noisy == ()


def test_the_beat_and_the_clock() -> None:
    assert spread([]) == 0.0
    assert spread([100.0] * 9) == 0.0
    assert spread([98.0, 99.0, 100.0, 101.0, 102.0]) == pytest.approx(0.0148, abs=0.001)
    assert spread([100.0] * 18 + [6000.0] * 2) == 0.0
    assert drop([]) == UNKNOWN
    assert drop([3000.0, 2400.0, 2900.0]) == pytest.approx(0.2)


def test_the_counters_of_the_system_are_read(tmp_path: Path) -> None:
    for name, text in {
        "proc/stat": "cpu  100 0 100 300 100 0 0 50 0 0\ncpu9999 1 2 3\n",
        "proc/loadavg": "1.25 0.50 0.10 1/234 5678\n",
        "proc/cpuinfo": "model name : x\ncpu MHz\t\t: 2100.5\ncpu MHz\t\t: 3000\n",
        "sys/fs/cgroup/cpu.stat": "usage_usec 5\nthrottled_usec 2500000\n",
        "sys/fs/cgroup/cpu.max": "150000 100000\n",
        "proc/self/task/7/schedstat": "3000000000 1000000000 5\n",
        "proc/self/task/8/schedstat": "1000000000 500000000 5\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = read_counters(tmp_path)
    assert found.all_s is not None
    assert found.idle_s is not None
    assert found.steal_s is not None
    assert found.idle_s / found.all_s == pytest.approx(400 / 650)
    assert found.steal_s / found.all_s == pytest.approx(50 / 650)
    assert found.throttled_s == 2.5
    assert (found.ran_s, found.waited_s) == (4.0, 1.5)
    assert read_quota(tmp_path) == start_now(tmp_path, look_s=0).quota == 1.5
    assert read_frequencies(tmp_path) == [2100.5, 3000.0]
    assert read_load(tmp_path) == start_now(tmp_path, look_s=0).load == 1.25


def test_a_system_without_these_files_is_no_failure(tmp_path: Path) -> None:
    found = read_counters(tmp_path)
    assert (found.all_s, found.throttled_s) == (None, None)
    assert read_frequencies(tmp_path) == []
    assert read_load(tmp_path) == read_quota(tmp_path) == UNKNOWN
    assert (found.ran_s, found.waited_s) == (None, None)


def test_only_the_processors_that_we_may_use_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container others may be as busy as they like elsewhere."""
    (tmp_path / "proc").mkdir()
    rows = ("cpu  300 0 0 100 0 0 0 0", "cpu0 100 0 0 0 0 0 0 0", "cpu1 0 0 0 100 0 0 0 0", "cpu2 200 0 0 0 0 0 0 0")
    (tmp_path / "proc/stat").write_text("\n".join((*rows, "intr 5", "")))
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {1})
    found = read_counters(tmp_path)
    assert found.all_s == found.idle_s
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    found = read_counters(tmp_path)
    assert found.all_s is not None
    assert found.idle_s == found.all_s / 2


@pytest.mark.parametrize(
    ("start", "line"),
    [
        ({"load": 0.1, "other_share": 0.01}, "load 0.1 on 2 processors, other processes use 1 % of them: quiet"),
        ({"load": 3.0, "other_share": 0.01}, "load 3.0 on 2 processors, other processes use 1 % of them: quiet"),
        (
            {"load": 0.1, "other_share": 0.97},
            "load 0.1 on 2 processors, other processes use 97 % of them: busy, so some figures may not be usable",
        ),
        ({"load": 3.0}, "load 3.0 on 2 processors: busy, so some figures may not be usable"),
        (
            {"load": 0.0, "other_share": 0.0, "quota": 1.5},
            "load 0.0 on 2 processors, other processes use 0 % of them, a quota allows 1.5: busy, so some figures may "
            "not be usable",
        ),
        ({"load": UNKNOWN}, "the system does not say how busy the machine is"),
    ],
)
def test_the_load_is_seen_before_anything_is_measured(start: dict[str, float], line: str) -> None:
    assert seen(Start(date="", counters=Counters(), processors=2, **start)) == line


def test_a_calibration_starts_before_the_ranks_of_collectives(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are a load of our own, take time, and are watched too."""
    order: list[object] = []

    def told(what: str, answer: object) -> Callable[..., object]:
        def call(*given: object, **_: object) -> object:
            order.append((what, *(one for one in given if isinstance(one, Start))))
            return answer

        return call

    start = Start(date="2026-11-15", load=0.5, counters=BEFORE)
    monkeypatch.setattr("redline.calibration.conditions.start_now", told("start", start))
    monkeypatch.setattr("redline.calibration.collectives.start.measure_collectives", told("ranks", collectives()))
    monkeypatch.setattr("redline.calibration.calibrate.calibrate_device", told("device", calibration()))
    told_lines: list[str] = []
    calibrate(torchrun=["--nproc-per-node", "2"], tell=told_lines.append, budget=90)
    assert told_lines[0].endswith("; at most 90 s")
    assert order == [("start",), ("ranks",), ("device", start)]


def test_this_system_counts() -> None:
    found = read_counters()
    assert found.ours_s > 0
    assert found.ran_s is None or found.ran_s > 0
    assert 0 <= start_now().seconds < 60
