"""Digests at the source, by the processes that a watcher really starts; the windows are recorded traces put there."""

import gzip
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

from redline.capture import shared_state as at
from redline.capture.process import is_alive
from redline.capture.run_record import DigestsRecord, RankDigest, joined_digests
from redline.capture.settings import Settings
from redline.capture.shared_state import ProcessSlot, SharedState
from redline.capture.supervisor import side_process, source_digests
from redline.capture.supervisor.command import command
from redline.capture.supervisor.kept_traces import DigestTroubles, KeptTraces
from redline.capture.supervisor.rank_records import remove_digests, window_trace
from redline.capture.supervisor.side_process import SideProcess
from redline.capture.supervisor.source_digests import DigestPlan, SourceDigests
from redline.capture.supervisor.supervise import Supervisor
from redline.ledger.rank.digest_file import load_digest
from redline.verbs.digest_child import digest_program
from tests.support.command_line import ROOT

RECORDED = ROOT / "tests" / "data" / "recorded"
ENOUGH_S = 300.0  # only guards against a hang
HANGS = ("sh", "-c", "exec sleep 1000")
# Hangs at first, then digests: what is ended in between is at its first trace, whatever else runs.
HANGS_ONCE = ("sh", "-c", 'mkdir "$0" 2>/dev/null && exec sleep 1000; exec "$@"')


class Watched:
    """A run of two ranks whose windows are captured when a test says so, and its watcher's digests."""

    def __init__(self, folder: Path, program: Sequence[str] | None = None, **plan: object) -> None:
        self.folder = folder
        self.shared = SharedState.make(2)
        self._times = count(1)
        self._slots = [self.shared.slot(rank) for rank in (0, 1)]
        plan_ = DigestPlan(**plan)  # type: ignore[arg-type]
        self.digests = SourceDigests(folder, plan_, program or digest_program(), self.slots)
        self.supervisor = Supervisor(command(None, ["x.py"]), Settings({}), self.shared, lambda: None)
        self.supervisor.other_ended = self.digests.ended

    def slots(self) -> list[ProcessSlot]:
        return [slot for slot in self._slots if slot.words[at.PID]]

    def begun(self, rank: int) -> ProcessSlot:
        """The process of this rank runs."""
        slot = self._slots[rank]
        slot.words[at.PID], slot.words[at.RANK] = os.getpid(), rank
        return slot

    def captured(self, number: int, rank: int, trace: Path | bytes) -> Path:
        """The window of this rank is there, and whole as far as it says."""
        path = self.folder / f"window-{number}" / f"rank-{rank}.trace.json.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(trace if isinstance(trace, bytes) else trace.read_bytes())
        slot = self.begun(rank)
        slot.words[at.WINDOWS_DONE] = number
        window = slot.new_window(number)
        window[at.FROM_NS], window[at.BYTES], window[at.FIRST_STEP] = next(self._times), path.stat().st_size, 9
        window[at.STATE] = at.WRITTEN
        return path

    def overwritten(self, number: int, rank: int) -> None:
        self._slots[rank].window(number)[at.NUMBER] = 0

    def done(self, seconds: float = ENOUGH_S) -> DigestsRecord:
        """What came of it once the job is over and nothing is left to do."""
        self.digests.job_is_over()
        self.supervisor.wait_for_others(self.digests.look, self.digests.is_done, seconds)
        self.digests.give_up()
        return self.digests.record()

    def hanging(self) -> int:
        """The process that was to digest, once it hangs."""
        self.digests.look()
        return wait_for(lambda: next((pid for pid in children() if words_of(pid).startswith("sleep 1000")), 0))

    def left(self) -> list[str]:
        """Files of the run."""
        return sorted(path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file())


def children() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def words_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def wait_for(look: Callable[[], int]) -> int:
    until_s = time.monotonic() + ENOUGH_S
    while not (value := look()):
        assert time.monotonic() < until_s
        time.sleep(0.005)
    return value


@pytest.fixture(autouse=True)
def _as_soon_as_the_test(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is digested has the priority of the test, which else might wait for all others."""
    if "gives_way" not in request.node.name:
        monkeypatch.setattr(side_process, "_give_way", lambda pid: None)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(tmp_path)
    yield watched
    assert [pid for pid in children() if "digest_child" in words_of(pid)] == [], "no process is left"
    watched.shared.close()


def test_each_rank_has_the_digest_that_the_verb_makes_and_one_process_makes_both(watched: Watched) -> None:
    for rank in (0, 1):
        watched.captured(1, rank, RECORDED / f"ddp_rank{rank}.pt.trace.json.gz")
    record = watched.done()
    assert watched.left() == [
        *(f"digests/window-1/rank-{rank}.digest" for rank in (0, 1)),
        *(f"window-1/rank-{rank}.trace.json.gz" for rank in (0, 1)),
    ]
    assert (record.written, record.failed, record.processes, record.deleted) == (2, 0, 1, 0)
    assert [(made.rank, made.state, made.trace, made.first_step) for made in record.newest] == [
        (0, "written", "kept", 9),
        (1, "written", "kept", 9),
    ]
    assert 0 < sum(made.cpu_ns for made in record.newest) < record.cpu_ns
    by_verb = [sys.executable, "-m", "redline", "digest", str(watched.folder / "window-1"), "-o", "verb"]
    subprocess.run(by_verb, cwd=watched.folder, check=True, capture_output=True, env=environment(watched.folder))
    for rank, made in enumerate(record.newest):
        ours = load_digest(watched.folder / made.path)
        verb = load_digest(watched.folder / "verb" / f"rank-{rank:05d}.digest")
        assert (ours.origin, ours.ledger.steps.tolist()) == (verb.origin, verb.ledger.steps.tolist())
        assert made.size_bytes == (watched.folder / made.path).stat().st_size
    assert watched.digests.notes() == []


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "REDLINE_CACHE": str(folder / "cache")}


def test_traces_go_but_those_of_the_newest_windows_and_of_ranks_that_stand_out(tmp_path: Path) -> None:
    watched = Watched(tmp_path, keep_traces=1)
    for number in (1, 2):  # in both, rank 0 waits for the data loader of rank 1
        for rank in (0, 1):
            watched.captured(number, rank, RECORDED / f"slow_loader_rank{rank}.pt.trace.json.gz")
    record = watched.done()
    assert [name for name in watched.left() if name.endswith(".gz")] == [
        "window-1/rank-1.trace.json.gz",
        "window-2/rank-0.trace.json.gz",
        "window-2/rank-1.trace.json.gz",
    ]
    assert [(made.window, made.rank, made.trace) for made in record.newest] == [
        *((1, 0, "deleted"), (1, 1, "late")),
        *((2, 0, "kept"), (2, 1, "kept")),
    ]
    assert (record.deleted, record.processes) == (1, 3)  # the last one only found out who stands out
    assert 0 < record.choosing_cpu_ns < record.cpu_ns


def test_a_rank_alone_does_not_stand_out_and_its_folder_goes_with_its_trace(tmp_path: Path) -> None:
    watched = Watched(tmp_path, keep_traces=0)
    path = watched.captured(1, 0, RECORDED / "plain_loop.pt.trace.json.gz")
    size_bytes = path.stat().st_size
    record = watched.done()
    assert not path.parent.exists()
    assert (record.deleted, record.deleted_bytes, record.choosing_cpu_ns) == (1, size_bytes, 0)


def test_a_window_that_a_rank_is_yet_to_reach_is_not_decided_on(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.captured(1, 0, RECORDED / "plain_loop.pt.trace.json.gz")
    other = watched.begun(1)
    kept = KeptTraces(tmp_path, 0, watched.slots, DigestTroubles())
    first = watched.slots()[0]
    kept.add(window_trace(first, next(first.windows())))
    assert kept.due() is None
    other.words[at.WINDOWS_DONE] = 1
    assert kept.due() == (0, 1)
    other.new_window(1)[at.STATE] = at.EXPORTING
    assert kept.due() is None


def test_a_killed_process_costs_the_rank_that_it_was_at(tmp_path: Path) -> None:
    once = str(tmp_path / "hung")
    watched = Watched(tmp_path / "run", [*HANGS_ONCE, once, *digest_program()], keep_traces=0)
    for rank in (0, 1):
        watched.captured(1, rank, RECORDED / f"ddp_rank{rank}.pt.trace.json.gz")
    os.kill(watched.hanging(), signal.SIGKILL)
    record = watched.done()
    assert [(made.rank, made.state) for made in record.newest] == [(0, "failed"), (1, "written")]
    assert watched.left() == ["digests/window-1/rank-1.digest", "window-1/rank-0.trace.json.gz"]
    assert watched.digests.notes() == [
        "digests: rank 0, window 1: the digesting process was ended by SIGKILL; its trace is kept"
    ]


def test_a_torn_trace_is_said_and_kept(tmp_path: Path) -> None:
    watched = Watched(tmp_path, keep_traces=0)
    whole = (RECORDED / "ddp_rank0.pt.trace.json.gz").read_bytes()
    watched.captured(1, 0, whole[: len(whole) * 3 // 4])
    watched.captured(1, 1, gzip.compress(b"not a trace"))
    record = watched.done()
    assert [(made.rank, made.state) for made in record.newest] == [(0, "written"), (1, "failed")]
    assert [name for name in watched.left() if name.endswith(".gz")] == [
        "window-1/rank-0.trace.json.gz",
        "window-1/rank-1.trace.json.gz",
    ]
    torn, unread = watched.digests.notes()
    assert torn.startswith("digests: rank 0, window 1: its trace is damaged (the file is cut or broken")
    assert unread.startswith("digests: rank 1, window 1: window-1/rank-1.trace.json.gz: ")
    assert unread.endswith("; its trace is kept")


def test_a_process_that_hangs_is_ended_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_digests, "_QUIET_S", 0.5)
    watched = Watched(tmp_path, HANGS)
    watched.captured(1, 0, RECORDED / "ddp_rank0.pt.trace.json.gz")
    pid = watched.hanging()
    record = watched.done()
    assert not is_alive(pid)
    assert [(made.state, made.why) for made in record.newest] == [("failed", "digesting took more than 0.5 s")]
    assert watched.left() == ["window-1/rank-0.trace.json.gz"]


def test_the_end_of_the_job_waits_so_long_and_no_longer(tmp_path: Path) -> None:
    watched = Watched(tmp_path, HANGS, wait_s=0.5)
    watched.captured(1, 0, RECORDED / "ddp_rank0.pt.trace.json.gz")
    pid = watched.hanging()
    record = watched.done(0.5)
    assert not is_alive(pid)
    assert (record.written, record.failed) == (0, 0)
    assert watched.left() == ["window-1/rank-0.trace.json.gz"]
    assert watched.digests.notes() == [
        "digests: 1 not made in the time after the job (at most 0.5 s); the traces are kept"
    ]


def test_where_no_digest_can_be_written_the_traces_stay(tmp_path: Path) -> None:
    watched = Watched(tmp_path, keep_traces=0)
    (tmp_path / "digests").write_text("in the way")
    watched.captured(1, 0, RECORDED / "ddp_rank0.pt.trace.json.gz")
    record = watched.done()
    assert (record.failed, record.deleted) == (1, 0)
    assert watched.digests.notes() == [
        "digests: rank 0, window 1: the digest cannot be written (Not a directory); its trace is kept"
    ]


def test_a_digest_that_does_not_fit_on_the_disk_leaves_no_part(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_process, "_MOST_FILE_BYTES", 100)  # the system ends the write there, as a full disk would
    watched.captured(1, 0, RECORDED / "ddp_rank0.pt.trace.json.gz")
    record = watched.done()
    assert record.newest[0].state == "failed"
    assert "cannot write digests/window-1/rank-0.digest" in record.newest[0].why
    assert watched.left() == ["window-1/rank-0.trace.json.gz"]


def test_a_process_that_needs_too_much_memory_costs_this_digest(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_digests, "_MOST_MEMORY_BYTES", 60 << 20)
    monkeypatch.setattr(source_digests, "_LEAST_MEMORY_BYTES", 0)
    watched.captured(1, 0, RECORDED / "ddp_rank0.pt.trace.json.gz")
    assert watched.done().failed == 1
    assert watched.left() == ["window-1/rank-0.trace.json.gz"]


def test_where_the_machine_has_no_memory_left_digests_wait(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_digests, "available_bytes", lambda: 100 << 20)
    watched.captured(1, 0, RECORDED / "ddp_rank0.pt.trace.json.gz")
    watched.digests.look()
    assert [pid for pid in children() if "digest_child" in words_of(pid)] == []
    assert watched.done(0.1).written == 0


def test_after_failures_in_a_row_no_more_is_tried(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_digests, "_MOST_FAILURES", 2)
    for number in range(1, 5):
        watched.captured(number, 0, gzip.compress(b"not a trace"))
    assert watched.done().failed == 2
    assert watched.digests.notes()[-1] == "digests: no more after 2 failures in a row"


def test_digests_stop_where_they_take_as_much_of_the_disk_as_they_may(tmp_path: Path) -> None:
    watched = Watched(tmp_path, most_bytes=100)
    for number in (1, 2):
        watched.captured(number, 0, RECORDED / "plain_loop.pt.trace.json.gz")
    assert watched.done().written == 1
    assert watched.digests.notes() == ["digests: no more, as they take as much of the disk as they may"]


def test_where_no_process_can_be_had_it_is_said(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*words: object, **limits: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(source_digests, "SideProcess", refused)
    watched.captured(1, 0, RECORDED / "ddp_rank0.pt.trace.json.gz")
    watched.digests.look()
    assert watched.digests.notes() == ["digests: no process could be started (Resource temporarily unavailable)"]


def test_what_made_room_before_it_was_digested_is_counted(watched: Watched) -> None:
    path = watched.captured(1, 0, RECORDED / "ddp_rank0.pt.trace.json.gz")
    assert not watched.digests.is_done()
    watched.overwritten(1, 0)
    path.unlink()
    record = watched.done()
    assert (record.written, record.missed) == (0, 1)
    assert watched.digests.notes() == ["digests: traces that made room for newer ones before: 1"]


def test_a_side_process_gives_way_and_holds_nothing_of_ours() -> None:
    tell = "sleep 0.5; cat /proc/$$/stat; cat /proc/$$/oom_score_adj; ls /proc/$$/fd; ulimit -v"
    process = SideProcess(["sh", "-c", tell], memory_bytes=1 << 30, cpu_s=60)
    policy = os.sched_getscheduler(process.pid)
    assert os.getpgid(process.pid) == process.pid
    os.waitpid(process.pid, 0)
    stat, oom, *files, memory = process.lines()
    process.close()
    assert policy == os.SCHED_IDLE
    assert stat.rpartition(b")")[2].split()[16] == b"19"
    assert oom == b"1000"
    assert [int(number) for number in files] == [0, 1, 2]
    assert int(memory) == 1 << 20


def test_a_side_process_ends_with_its_watcher(tmp_path: Path) -> None:
    program = (
        "import time; from redline.capture.supervisor.side_process import SideProcess; "
        "print(SideProcess(['sleep', '1000'], memory_bytes=1 << 30, cpu_s=60).pid, flush=True); time.sleep(1000)"
    )
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment(tmp_path)) as watcher:
        assert watcher.stdout is not None
        pid = int(watcher.stdout.readline())
        assert is_alive(pid)
        watcher.kill()
    wait_for(lambda: not is_alive(pid))


def test_a_side_process_that_does_not_exist_is_an_error_and_leaves_no_descriptor() -> None:
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    with pytest.raises(FileNotFoundError):
        SideProcess(["/nowhere/at/all"], memory_bytes=1 << 30, cpu_s=60)
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208


def test_records_of_several_watchers_are_one() -> None:
    made = RankDigest(
        rank=1, restart=0, window=2, first_step=1, steps=3, state="written", why="", path="p", size_bytes=5,
        trace_bytes=9, wall_ns=1, cpu_ns=1, trace="kept",
    )  # fmt: skip
    one = DigestsRecord(keep_traces=2, wait_s=30.0, written=1, size_bytes=5, peak_bytes=7, newest=(made,))
    joined = joined_digests(one, one)
    assert joined is not None
    assert (joined.written, joined.size_bytes, joined.peak_bytes, len(joined.newest)) == (2, 10, 7, 2)
    assert joined_digests(None, one) is one
    assert joined_digests(one, None) is one


def test_digests_of_what_was_no_step_are_removed(tmp_path: Path) -> None:
    for rank in (0, 1):
        path = tmp_path / f"digests/window-1/rank-{rank}.digest"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    remove_digests(tmp_path, ["window-1/rank-0.trace.json.gz"])
    assert [path.name for path in tmp_path.rglob("*.digest")] == ["rank-1.digest"]
    remove_digests(tmp_path, ["window-1/rank-1.trace.json.gz"])
    assert list(tmp_path.iterdir()) == []
