"""The flight recorder's files are found where torch writes them, and asked for by the pipes that it listens to."""

import os
import threading
import time
from pathlib import Path

import pytest

from redline.capture.supervisor.stall import ask_recorders, recordings

PIPES = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"TORCH_FR_DUMP_TEMP_FILE": "here/trace_"}, "here/trace_3"),
        ({"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "here/trace_"}, "here/trace_3"),
        ({"TORCH_FR_DUMP_TEMP_FILE": "here/new_", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "here/old_"}, "here/new_3"),
        ({"XDG_CACHE_HOME": "cache", "HOME": "home"}, "cache/torch/comm_lib_trace_rank_3"),
        ({"HOME": "home"}, "home/.cache/torch/comm_lib_trace_rank_3"),
    ],
)
def test_files_are_found_where_torch_writes_them(tmp_path: Path, environment: dict[str, str], name: str) -> None:
    known = {key: str(tmp_path / value) for key, value in environment.items()}
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    (path.parent / "other").touch()
    now_s = time.time()
    assert recordings(now_s - 60, asked=False, environment=known) == ()
    path.touch()
    assert recordings(now_s - 60, asked=False, environment=known) == (str(path),)
    os.utime(path, (now_s - 100, now_s - 100))
    assert recordings(now_s - 60, asked=False, environment=known) == ()  # of an earlier hang


def test_a_monitor_that_listens_is_asked(tmp_path: Path) -> None:
    """As NCCL's monitor does: it reads its pipe without waiting, once in a while, and writes its file."""
    pipe, trace = tmp_path / "pipe_1.pipe", tmp_path / "trace_1"
    os.mkfifo(pipe)
    listening = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    def monitor() -> None:
        until_s = time.monotonic() + 30
        while not os.read(listening, 128) and time.monotonic() < until_s:
            time.sleep(0.2)
        trace.write_bytes(b"...")

    thread = threading.Thread(target=monitor)
    thread.start()
    known = {PIPES: str(tmp_path / "pipe_"), "TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "trace_")}
    since_s = time.time() - 1
    try:
        assert ask_recorders([0, 1], known)  # rank 0 has no pipe
        assert recordings(since_s, asked=True, environment=known) == (str(trace),)
    finally:
        thread.join()
        os.close(listening)


def test_nobody_is_asked_where_nobody_listens(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe_0.pipe")
    assert not ask_recorders([0], {})
    assert not ask_recorders([0, 1], {PIPES: str(tmp_path / "pipe_")})
