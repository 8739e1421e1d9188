"""What files of other tools are taken for."""

import json
import sqlite3
from pathlib import Path

import pytest

from redline.errors import InputError, NotATraceError
from redline.job.find_files import find_traces
from redline.trace.other_formats import what_it_is
from redline.trace.reader import read_file

STARTS = {
    b'{"rocprofiler-sdk-tool": [{"metadata": {}}]}': "rocprofv3",
    b'{"header": {"id": 1}, "metadata": {}, "coll_perf": {"coll": "AllReduce"}}\n': "NCCL Inspector",
    b'{"version": "2.10", "pg_config": {"0": {}}, "entries": []}': "flight recorder",
    b'{"comm_lib_version": "", "entries": []}': "flight recorder",
    b"\x80\x02}q\x00(X\x07\x00\x00\x00versionq\x01X\x09\x00\x00\x00pg_config": "flight recorder",
    b'{"config": {"common_config": {"activities": ["ProfilerActivity.NPU"]}}}': "side file of Ascend",
    b'{"step1": {"p2p": {}, "collective": {"a": {}}}}': "side file of Ascend",
    b'{"collective": [[0, 1]], "p2p": []}': "side file of Ascend",
    b"# nThread 1 nGpus 1 minBytes 8 maxBytes 64\n#\n# Using devices\n": "nccl-tests",
    b'nccl_bus_bandwidth_gbs{version="v5.1"} 678.2\n': "NCCL Inspector",
    b"V1119 14:47:42.201000 3832 torch/_dynamo/utils.py:2350] {}\n": "TORCH_TRACE",
    b"\n\x9d\xb2\x08\x12\x0e/host:metadata": "XLA profiler",
}


@pytest.mark.parametrize("start", STARTS, ids=STARTS.values())
def test_a_file_of_another_tool_is_refused_with_its_name(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(start)
    with pytest.raises(NotATraceError, match=f"not a trace but .*{STARTS[start]}"):
        read_file(path)


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ("StringIds", "Nsight Systems"),
        ("rocpd_kernel_dispatch", "rocprofv3"),
        ("STRING_IDS", "Ascend"),
        ("recipes", "an SQLite database of another tool"),
    ],
)
def test_databases_are_told_by_their_tables(tmp_path: Path, table: str, what: str) -> None:
    path = tmp_path / "x.sqlite"
    with sqlite3.connect(path) as database:
        database.execute(f"create table {table} (id integer)")
    with pytest.raises(NotATraceError, match=what):
        read_file(path)


@pytest.mark.parametrize(
    "start", [b"", b"{", b"[", b'{"traceEvents": []}', b'{"a": 1}', b"hello", b"# notes\n", b"\x80"]
)
def test_anything_else_is_not_guessed_at(start: bytes) -> None:
    assert what_it_is(start) == ""


def test_process_groups_before_the_events_do_not_hide_a_trace(tmp_path: Path) -> None:
    groups = [{"pg_name": str(number), "ranks": list(range(64)), "entries": "x" * 200} for number in range(3000)]
    info = {"rank": 3, "world_size": 64, "pg_config": groups, "nccl_version": "2.27", "entries": [], "collective": {}}
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1}
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": info, "traceEvents": [event]}))
    assert path.stat().st_size > 1 << 20
    (timeline,) = read_file(path).timelines
    assert timeline.rank == 3


def test_a_folder_without_a_trace_says_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    (tmp_path / "_dump_0").write_bytes(b"\x80\x02}q\x00(X\x07\x00\x00\x00versionq\x01X\x09\x00\x00\x00pg_config")
    with pytest.raises(
        InputError, match=r"no trace in this folder(.|\n)*_dump_0 is a dump of PyTorch's flight recorder"
    ):
        find_traces(tmp_path)


def test_side_files_of_ascend_are_no_traces_of_a_folder(tmp_path: Path) -> None:
    output = tmp_path / "rank0_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    for name in ("trace_view.json", "communication.json", "communication_matrix.json"):
        (output / name).write_text("[]")
    (output.parent / "profiler_info_0.json").write_text("{}")
    (tmp_path / "communication.json").write_text("[]")  # of somebody else
    assert [path.name for path in find_traces(tmp_path)] == ["communication.json", "trace_view.json"]
