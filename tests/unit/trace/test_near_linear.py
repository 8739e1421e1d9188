"""Small files that ask for much: time in proportion to their size, by ratios of CPU time within one run, and memory."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest

from redline.job.read_files import JobOptions
from redline.timeline.problems import Reason
from redline.trace.reader import read_file
from redline.trace.repair import double_backslashes
from redline.verbs.diagnose import diagnose
from tests.support.command_line import environment
from tests.support.events import document, ledger_of, op

ALONE = JobOptions(jobs=1, use_cache=False)
MB = 1_000_000
PEAK = """
import sys; from pathlib import Path
def peak(): return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) * 1024
from redline.verbs.diagnose import diagnose; from redline.job.read_files import JobOptions
options = JobOptions(jobs=1, use_cache=False)
diagnose([sys.argv[1]], options=options); before = peak(); diagnose([sys.argv[2]], options=options)
print(before, peak())
"""


def nested(count: int) -> bytes:
    return document([op("aten::add", number, 2 * (count - number)) for number in range(count)])


def threads(count: int) -> bytes:
    return document([op("aten::add", number, 1, tid=number + 1) for number in range(count)])


def processes(count: int) -> bytes:
    return document([op("aten::add", number, 1, pid=number + 1) for number in range(count)], rank=None)


def rubbish(count: int) -> bytes:
    return b'{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1' + b'},{"ph":' * count + b"]}"


def cost_s(make: Callable[[int], bytes], count: int, folder: Path) -> float:
    path = folder / f"{make.__name__}-{count}.json"
    path.write_bytes(make(count))
    began = process_time()
    diagnose([path], options=ALONE)
    return process_time() - began


@pytest.mark.parametrize(
    ("make", "few"),
    [(nested, 5_000), (threads, 2_500), (processes, 2_500), (rubbish, 10_000)],
    ids=["nested", "threads", "processes", "rubbish"],
)
def test_four_times_as_much_takes_four_times_as_long(tmp_path: Path, make: Callable[[int], bytes], few: int) -> None:
    """The best of some rounds, as other processes of the machine cost time too; by the square it would be 16 times."""
    cost_s(make, 10, tmp_path)  # imports and caches
    ratios = []
    for _ in range(4):
        ratios.append(cost_s(make, 4 * few, tmp_path) / cost_s(make, few, tmp_path))
        if min(ratios) < 6:
            return
    pytest.fail(f"ratios of CPU time: {ratios}")


def peak_above(folder: Path, small: bytes, large: bytes) -> tuple[int, int]:
    """Peak memory of a process, and how far a large file raised it above that of a small one."""
    paths = [folder / "small.json", folder / "large.json"]
    for path, data in zip(paths, (small, large), strict=True):
        path.write_bytes(data)
    command = [sys.executable, "-c", PEAK, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=180, env=environment())
    before, after = map(int, done.stdout.split())
    return after, after - before


def test_ten_thousand_processes_are_no_ranks(tmp_path: Path) -> None:
    peak, _ = peak_above(tmp_path, processes(1), processes(10_000))
    assert peak < 150 * MB
    timelines = read_file(tmp_path / "large.json").timelines
    assert len(timelines) == 100  # as many as there are hundreds of events
    assert ledger_of(timelines[0])[Reason.TOO_MANY_PROCESSES] == 9_900
    assert {len(timeline.lanes) for timeline in timelines} == {1}


def test_the_busiest_processes_are_kept_in_order(tmp_path: Path) -> None:
    events = [op("a", 10 * number, 5, pid=pid) for pid in range(1, 81) for number in range(1 + (pid > 16))]
    (tmp_path / "trace.json").write_bytes(document(events, rank=None))
    timelines = read_file(tmp_path / "trace.json").timelines
    assert [timeline.lanes[0].process for timeline in timelines] == [str(pid) for pid in range(17, 81)]
    assert {len(timeline.spans) for timeline in timelines} == {2}


@pytest.mark.parametrize("text", [b"\\", pytest.param(b"\\q", marks=pytest.mark.slow)])
def test_millions_of_backslashes_take_memory_like_their_text(tmp_path: Path, text: bytes) -> None:
    event = b'{"ph": "X", "cat": "cpu_op", "name": "' + text * (3_000_001 // len(text)) + b'", "ts": 1, "dur": 1}'
    good = document([op("aten::add", 0, 1)])
    _, raised = peak_above(tmp_path, good, b'{"traceEvents": [' + event + b"," + good[good.index(b"[") + 1 :])
    assert raised < 60 * MB


def test_lone_backslashes_are_doubled_and_escapes_are_not() -> None:
    assert double_backslashes(rb"C:\dir\new \\ \" \u00e9 \u12 \\\x" + b"\\") == (
        rb"C:\\dir\new \\ \" \u00e9 \\u12 \\\\x" + b"\\\\"
    )
    assert double_backslashes(rb"\\" * 3 + b'"') == rb"\\" * 3 + b'"'
