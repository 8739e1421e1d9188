"""Windows are read in order, once, when they are whole or the time for that is over."""

import os
import shutil
from pathlib import Path

import pytest

from redline.errors import InputError, UsageError
from redline.watch.follow import Follower, Following, UnreadWindow, window_folders
from redline.watch.job_monitor import WatchedWindow
from tests.support.made_windows import BEGUN_S, EVERY_S, GRACE_S, HEALTHY, RANKS, write_windows


class Clock:
    """Time that passes when somebody sleeps; what happens then is a list of actions."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s
        self.slept = 0

    def now(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept += 1
        self.now_s += seconds


def follower(*folders: Path, clock: Clock | None = None) -> Follower:
    if clock is None:
        return Follower(folders, Following(once=True, grace_s=GRACE_S))
    return Follower(folders, Following(grace_s=GRACE_S, poll_s=10, now_s=clock.now, sleep_s=clock.sleep))


def names(found: list[WatchedWindow | UnreadWindow]) -> list[str]:
    return [window.figures.name.text if isinstance(window, WatchedWindow) else window.name.text for window in found]


def silent(window: WatchedWindow | UnreadWindow) -> tuple[int, ...]:
    assert isinstance(window, WatchedWindow)
    return window.figures.silent


def test_windows_and_restarts_in_order(tmp_path: Path) -> None:
    write_windows(tmp_path / "digests", [HEALTHY], first=10)
    write_windows(tmp_path / "digests", [HEALTHY], first=2)
    write_windows(tmp_path / "digests" / "restart-1", [HEALTHY], first=1)
    read = list(follower(tmp_path).windows())
    assert names(read) == ["window-2", "window-10", "restart-1/window-1"]


def test_nodes_may_write_to_folders_of_their_own(tmp_path: Path) -> None:
    write_windows(tmp_path / "a", [HEALTHY], without=(2, 3))
    write_windows(tmp_path / "b", [HEALTHY], without=(0, 1))
    (read,) = follower(tmp_path / "a", tmp_path / "b").windows()
    assert silent(read) == ()


def test_folders_of_any_names(tmp_path: Path) -> None:
    write_windows(tmp_path, [HEALTHY, HEALTHY])
    (tmp_path / "window-1").rename(tmp_path / "step_900")
    (tmp_path / "window-2").rename(tmp_path / "step_1800")
    (tmp_path / "notes").mkdir()
    assert names(list(follower(tmp_path).windows())) == ["step_900", "step_1800"]


def test_a_rank_whose_digest_comes_too_late_is_silent_also_for_who_reads_later(tmp_path: Path) -> None:
    write_windows(tmp_path, [HEALTHY])
    late = tmp_path / "window-1" / "rank-00003.digest"
    os.utime(late, (BEGUN_S + EVERY_S + GRACE_S + 1,) * 2)
    (read,) = follower(tmp_path).windows()
    assert silent(read) == (3,)


def test_a_window_waits_for_all_ranks_and_no_longer_than_the_grace(tmp_path: Path) -> None:
    write_windows(tmp_path, [HEALTHY, HEALTHY], without=(1,))
    clock = Clock(BEGUN_S + 2 * EVERY_S)
    windows = follower(tmp_path, clock=clock).windows()
    assert silent(next(windows)) == (1,)
    assert clock.slept == 0  # the time of the first is long over
    assert silent(next(windows)) == (1,)
    assert GRACE_S <= clock.now_s - (BEGUN_S + 2 * EVERY_S) <= GRACE_S + 30


def test_a_window_that_is_whole_does_not_wait(tmp_path: Path) -> None:
    write_windows(tmp_path, [HEALTHY])
    clock = Clock(BEGUN_S + EVERY_S)
    assert silent(next(follower(tmp_path, clock=clock).windows())) == ()
    assert clock.slept == 0


def test_digests_that_cannot_be_read(tmp_path: Path) -> None:
    write_windows(tmp_path, [HEALTHY, HEALTHY])
    (tmp_path / "window-1" / "rank-00002.digest").write_bytes(b"damaged")
    for path in (tmp_path / "window-2").iterdir():
        path.write_bytes(b"damaged")
    os.utime(tmp_path / "window-1" / "rank-00002.digest", (BEGUN_S + EVERY_S,) * 2)
    first, second = follower(tmp_path).windows()
    assert silent(first) == (2,)
    assert isinstance(first, WatchedWindow)
    assert "rank-00002.digest" in first.figures.failures[0]
    assert isinstance(second, UnreadWindow)
    assert "digest" in second.message


def test_started_again_it_says_the_same(tmp_path: Path) -> None:
    write_windows(tmp_path, [HEALTHY] * 3)
    one, other = (list(follower(tmp_path).windows()) for _ in range(2))
    assert names(one) == names(other)
    assert [window.alarms for window in one if isinstance(window, WatchedWindow)] == [
        window.alarms for window in other if isinstance(window, WatchedWindow)
    ]
    clock = Clock(BEGUN_S + 10 * EVERY_S)
    followed = follower(tmp_path, clock=clock).windows()
    assert names([next(followed) for _ in range(3)]) == names(one)


def test_a_window_that_is_empty_or_gone_is_not_there_yet(tmp_path: Path) -> None:
    write_windows(tmp_path, [HEALTHY])
    (tmp_path / "window-2").mkdir()
    assert names(list(follower(tmp_path).windows())) == ["window-1"]
    shutil.rmtree(tmp_path / "window-1")
    assert not list(follower(tmp_path).windows())


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder; give the folder of a run, or of its digests"):
        list(follower(tmp_path / "none").windows())
    with pytest.raises(UsageError, match="no folder was given"):
        window_folders([])


def test_all_ranks_of_a_window_are_known_from_one_digest(tmp_path: Path) -> None:
    write_windows(tmp_path, [HEALTHY], without=tuple(range(1, RANKS)))
    (read,) = follower(tmp_path).windows()
    assert silent(read) == tuple(range(1, RANKS))
