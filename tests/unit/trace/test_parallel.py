"""One file decoded on several processes gives the very timeline that one process gives, damaged files included."""

import gzip
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pytest

from redline.errors import InputError
from redline.job.read_files import JobOptions
from redline.timeline.timeline import TABLES, Timeline
from redline.trace import document, reader
from redline.trace.parallel import Worker, workers
from redline.trace.reader import ReadOptions, read_file

RECORDED = Path(__file__).parents[2] / "data" / "recorded"
TEXT = gzip.decompress((RECORDED / "ddp_rank0.pt.trace.json.gz").read_bytes())
MIDDLE = TEXT.index(b"},", len(TEXT) // 2) + 2
ONE = b' {"ph": "X", "cat": "cpu_op", "name": "n", "pid": 1, "tid": 1, "ts": %s, "dur": 1%s},'


def inserted(text: bytes) -> bytes:
    return TEXT[:MIDDLE] + text + TEXT[MIDDLE:]


def mutilated(seed: int) -> bytes:
    random_ = random.Random(seed)
    damaged = bytearray(TEXT)
    for _ in range(random_.choice((1, 3, 30))):
        damaged[random_.randrange(len(damaged))] = random_.choice(b'"\\{}[],:\xff\x00')
    return bytes(damaged)


DOCUMENTS = {
    "sound": TEXT,
    "cut in an event": TEXT[: len(TEXT) * 2 // 3],
    "cut behind the events": TEXT[: MIDDLE - 2 + 1],
    "the list ends early": TEXT[: MIDDLE - 1] + b"]}" + TEXT[MIDDLE:],
    "two documents": TEXT + TEXT,
    "rubbish between events": inserted(b" rubbish, "),
    "a list of objects inside an event": inserted(ONE % (b"5", b', "args": {"x": [{"name": 1}, {"name": 2}]}')),
    "a time that needs exact decimals": inserted(ONE % (b'"17000000000000.123"', b"")),
    "a repeated key": inserted(ONE % (b"5", b', "cat": "kernel"')),
    "a begin and an end": inserted(
        b'{"ph": "B", "cat": "cpu_op", "name": "b", "pid": 1, "tid": 1, "ts": 3853546763000},'
        b'{"ph": "E", "cat": "cpu_op", "name": "b", "pid": 1, "tid": 1, "ts": 3853546763009},'
    ),
    "an arrow with a text for an id": inserted(
        b'{"ph": "s", "cat": "fwdbwd", "name": "f", "pid": 1, "tid": 1, "ts": 3853546763000, "id": "0x1"},'
    ),
    "a lane whose name no encoding can write": inserted((ONE % (b"5", b"")).replace(b'"tid": 1', b'"tid": "\\ud800"')),
    "no event at all": b'{"traceEvents": [',
    **{f"bytes overwritten, seed {seed}": mutilated(seed) for seed in range(8)},
}


@pytest.fixture(scope="module")
def team() -> Iterator[list[Worker]]:
    with workers(2) as started:
        for worker in started:
            wait_until_ready(worker)
        yield started


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some 30 batches of a small file, and no file too small for several processes."""
    monkeypatch.setattr(document, "_FILL_BYTES", 20_000)
    monkeypatch.setattr(document, "PIECE_BYTES", 9_000)
    monkeypatch.setattr(reader, "_LARGE_BYTES", 1)


def wait_until_ready(worker: Worker) -> None:
    while not worker.is_dead and not worker.can_take(b""):
        worker._look(60)


def told(path: Path, processes: int = 1) -> list[dict[str, object]] | str:
    try:
        return [everything_of(timeline) for timeline in read_file(path, ReadOptions(processes=processes)).timelines]
    except InputError as error:
        return str(error)


def everything_of(timeline: Timeline) -> dict[str, object]:
    columns = {
        f"{table}.{name}": (str(column.dtype), np.ascontiguousarray(column).tobytes())
        for table in TABLES
        for name, column in getattr(timeline, table).columns().items()
    }
    others = ("rank", "rank_origin", "zero_ns", "texts", "lanes", "step_anchor", "metadata", "source")
    return {**columns, **{name: getattr(timeline, name) for name in others}}


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_timeline_is_the_same(
    name: str, team: list[Worker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(DOCUMENTS[name])
    alone = told(path)
    monkeypatch.setattr(reader, "workers", lambda _: nullcontext(team))
    given: list[int] = []
    give = Worker.give

    def noted(worker: Worker, text: bytes) -> None:
        given.append(id(worker))
        give(worker, text)

    monkeypatch.setattr(Worker, "give", noted)
    assert told(path, processes=3) == alone
    assert name == "no event at all" or len(set(given)) == len(team)


@pytest.mark.usefixtures("small_batches")
def test_a_process_that_dies_costs_nothing_but_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(TEXT)
    alone = told(path)
    give = Worker.give
    killed: list[int] = []

    def give_and_kill(worker: Worker, text: bytes) -> None:
        give(worker, text)
        if len(killed) < 2:
            os.kill(worker._process.pid, signal.SIGKILL)
            killed.append(worker._process.pid)

    monkeypatch.setattr(Worker, "give", give_and_kill)
    monkeypatch.setattr(reader, "workers", ready)
    assert told(path, processes=3) == alone
    assert killed


@contextmanager
def ready(number: int) -> Iterator[list[Worker]]:
    with workers(number) as started:
        for worker in started:
            wait_until_ready(worker)
        yield started


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("executable", ["/no/such/python", None, sys.prefix])
def test_where_no_process_can_be_started_the_file_is_read_alone(
    executable: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(TEXT)
    alone = told(path)
    monkeypatch.setattr(sys, "executable", executable)
    assert told(path, processes=2) == alone


@pytest.mark.parametrize("daemonic", [False, True])
def test_a_script_without_a_guard_runs_once(daemonic: bool, tmp_path: Path) -> None:
    """Also in a daemonic process, which may have no children of multiprocessing."""
    path = tmp_path / "trace.json"
    path.write_bytes(TEXT)
    read = f"""
import multiprocessing
from pathlib import Path
from redline.trace import document, reader

reader._LARGE_BYTES, document._FILL_BYTES, document.PIECE_BYTES = 1, 20_000, 9_000

def read():
    print(len(reader.read_file(Path({str(path)!r}), reader.ReadOptions(processes=2)).timelines), flush=True)

"""
    run = "one = multiprocessing.get_context('fork').Process(target=read, daemon=True)\none.start()\none.join()"
    script = tmp_path / "script.py"
    script.write_text(read + (run if daemonic else "read()"))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("1\n", "", 0)


def test_only_a_single_file_takes_several_processes() -> None:
    one, two = [Path("a")], [Path("a"), Path("b")]
    assert JobOptions(jobs=4).reading_of(one).processes == 4
    assert JobOptions(jobs=1).reading_of(one).processes == 1
    assert JobOptions(jobs=4).reading_of(two).processes == 1
