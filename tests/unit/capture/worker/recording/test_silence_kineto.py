"""What the profiler says about itself is kept from stderr, and nothing else is."""

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from redline.capture.worker.recording.recorder import hushed

OWN = b"USDT:2026-01-01 10:00:00 1:1 SyncActivityProfilerHandler.cpp:52] profiler_start\n"


def stderr_during(act: object) -> bytes:
    """What reaches the descriptor of stderr meanwhile."""
    real, aside = os.dup(2), os.memfd_create("test")
    os.dup2(aside, 2)
    try:
        act()  # type: ignore[operator]
    finally:
        os.dup2(real, 2)
        os.close(real)
    content = os.pread(aside, 1 << 20, 0)
    os.close(aside)
    return content


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def files_that_may_not_grow() -> Iterator[None]:
    """As a script may have it: to write into a file ends the process."""
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGXFSZ, handler)
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_where_no_file_may_grow_its_lines_are_dropped_all_the_same(files_that_may_not_grow: None) -> None:
    real = os.dup(2)
    files = open_files()
    ends = os.pipe()
    os.dup2(ends[1], 2)
    try:
        with hushed() as said:
            os.write(2, b"a warning of the script\n" + OWN)
            assert said().endswith(OWN)
            os.write(2, b"INFO: of the script\n")
    finally:
        os.dup2(real, 2)
    assert os.read(ends[0], 1000) == b"a warning of the script\nINFO: of the script\n"
    for end in ends:
        os.close(end)
    assert open_files() == files
    os.close(real)


def test_its_lines_are_dropped_and_others_follow() -> None:
    def act() -> None:
        with hushed():
            os.write(2, b"a warning of the script\n" + OWN + b"INFO: of the script\n")
        os.write(2, b"later\n")

    assert stderr_during(act) == b"a warning of the script\nINFO: of the script\nlater\n"


def test_an_exception_leaves_stderr_in_its_place() -> None:
    def act() -> None:
        with pytest.raises(KeyError), hushed():
            os.write(2, b"before\n")
            raise KeyError
        os.write(2, b"after\n")

    files = open_files()
    assert stderr_during(act) == b"before\nafter\n"
    assert open_files() == files


def test_a_closed_stderr_stays_closed() -> None:
    files = open_files()
    real = os.dup(2)
    os.close(2)
    try:
        with hushed():
            pass
        closed = not Path("/proc/self/fd/2").exists()
    finally:
        os.dup2(real, 2)
        os.close(real)
    assert closed
    assert open_files() == files
