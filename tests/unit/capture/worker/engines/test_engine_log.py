"""Records of an engine reach a file, of each process its own, without the engine waiting for it."""

import inspect
import os
import time
from pathlib import Path
from types import FrameType

import pytest

from redline.capture.worker.engines import engine_log
from redline.capture.worker.engines.engine_log import EngineLog, tell_reads
from tests.support.made_engine import log_lines


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_log, "EVERY_S", 0.01)


def test_records_are_lines_after_a_head(tmp_path: Path) -> None:
    log = EngineLog(str(tmp_path), "engine")
    log.add("step", 1, (5, 6))
    head, record = log_lines(tmp_path / f"engine-{os.getpid()}.jsonl", 2)
    assert head[0] == "log"
    assert record == ["step", 1, [5, 6]]


def test_facts_come_first_and_once(tmp_path: Path) -> None:
    log = EngineLog(str(tmp_path), "engine")
    log.tell({"engine": "made"})
    log.add("step", 1)
    lines = log_lines(tmp_path / f"engine-{os.getpid()}.jsonl", 3)
    assert [line[0] for line in lines] == ["log", "facts", "step"]


def test_a_forked_process_has_a_file_of_its_own(tmp_path: Path) -> None:
    log = EngineLog(str(tmp_path), "engine")
    log.tell({"engine": "made"})
    log_lines(tmp_path / f"engine-{os.getpid()}.jsonl", 2)
    child = os.fork()
    if not child:
        log.add("step", 7)
        time.sleep(0.5)
        os._exit(0)
    os.waitpid(child, 0)
    lines = log_lines(tmp_path / f"engine-{child}.jsonl", 3)
    assert [line[0] for line in lines] == ["log", "facts", "step"]
    assert len(log_lines(tmp_path / f"engine-{os.getpid()}.jsonl", 2)) == 2


def test_without_a_folder_nothing_is_kept_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_log, "MOST_WAITING", 10)
    log = EngineLog("", "engine")
    for number in range(100):
        log.add("step", number)
    assert len(log._records) == 10


def test_a_folder_that_cannot_be_written_harms_nobody(tmp_path: Path) -> None:
    log = EngineLog(str(tmp_path / "absent"), "engine")
    log.add("step", 1)
    time.sleep(0.2)
    log.add("step", 2)


def test_a_file_ends_at_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_log, "MOST_BYTES", 100)
    log = EngineLog(str(tmp_path), "engine")
    path = tmp_path / f"engine-{os.getpid()}.jsonl"
    log.add("step", "x" * 200)
    log_lines(path, 2)
    size = path.stat().st_size
    for number in range(20):
        log.add("step", number)
        time.sleep(0.01)
    assert path.stat().st_size == size


# A call is told of by reading its function, and goes on as if nobody looked.


class Base:
    def work(self, x: int) -> int:
        """Twice."""
        return 2 * x


class Derived(Base):
    pass


def _base() -> type[Base]:
    """One that may be changed."""
    return type("Base", (), dict(Base.__dict__))


def test_reading_is_told_with_the_object_and_the_frame() -> None:
    told: list[tuple[object, str]] = []
    base = _base()

    def tell(instance: object, frame: FrameType) -> None:
        told.append((instance, frame.f_code.co_name))

    assert tell_reads(base, "work", tell)
    one = base()
    assert one.work(4) == 8
    assert told == [(one, "test_reading_is_told_with_the_object_and_the_frame")]


def test_a_class_that_inherits_it_is_told_of_too_and_once() -> None:
    told: list[object] = []
    base = _base()
    derived = type("Derived", (base,), {})
    assert tell_reads(derived, "work", lambda instance, frame: told.append(instance))
    assert tell_reads(base, "work", lambda instance, frame: told.append("again"))
    one = derived()
    assert one.work(1) == 2
    assert told == [one]


def test_what_fails_in_telling_is_not_seen() -> None:
    base = _base()

    def fail(instance: object, frame: FrameType) -> None:
        raise ValueError("ours")

    tell_reads(base, "work", fail)
    assert base().work(3) == 6


def test_the_function_itself_is_what_the_class_has() -> None:
    base = _base()
    tell_reads(base, "work", lambda instance, frame: None)
    assert base.work is Base.work
    assert inspect.signature(base.work) == inspect.signature(Base.work)
    assert inspect.getdoc(base.work) == "Twice."


def test_a_function_that_is_not_there_is_said() -> None:
    assert not tell_reads(_base(), "absent", lambda instance, frame: None)
