"""What a trace says of its job and machine, read with distrust."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redline.job.job import summarise
from redline.timeline.problems import ProblemLog, Reason
from redline.timeline.timeline import Device
from redline.trace.metadata import as_int, base_time_ns, metadata_of, stated_rank
from redline.trace.schema import METADATA_KEYS
from tests.support.events import collective, document, op, read_one

REAL = {
    "schemaVersion": 1,
    "deviceProperties": [
        {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85029158912, "numSms": 132, "warpSize": 32}
    ],
    "cupti_version": 22,
    "cuda_runtime_version": 12040,
    "distributedInfo": {
        "backend": "nccl",
        "rank": 3,
        "world_size": 8,
        "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1, 2, 3]}],
        "nccl_version": "2.21.5",
    },
    "record_shapes": 1,
    "with_stack": 0,
    "profile_memory": 1,
    "host_name": "node7",
    "baseTimeNanoseconds": 1790857026000000000,
    "synthetic": "tests.support.traces",
}


def read(raw: dict[str, object]) -> tuple[object, set[Reason]]:
    log = ProblemLog()
    return metadata_of(raw, log), {problem.reason for problem in log.freeze()}


def test_a_real_trace() -> None:
    log = ProblemLog()
    found = metadata_of(REAL, log)
    assert found.devices == (Device(id=0, name="NVIDIA H100 80GB HBM3", memory_bytes=85029158912, multiprocessors=132),)
    assert (found.backend, found.world_size, found.host) == ("nccl", 8, "node7")
    assert found.group_ranks == {"0": (0, 1, 2, 3)}
    assert found.versions == {
        "cuda_runtime_version": "12040",
        "cupti_version": "22",
        "nccl_version": "2.21.5",
    }
    assert found.recorded == ("shapes", "memory")
    assert found.synthetic == "tests.support.traces"
    assert (stated_rank(REAL), base_time_ns(REAL)) == (3, 1790857026000000000)
    assert log.freeze() == ()


def test_groups_may_be_written_as_text() -> None:
    log = ProblemLog()
    config = json.dumps([{"pg_name": "tp", "ranks": [4, 5]}])
    assert metadata_of({"distributedInfo": {"pg_config": config}}, log).group_ranks == {"tp": (4, 5)}


def test_groups_that_the_profiler_cut_off_are_noted() -> None:
    log = ProblemLog()
    config = json.dumps([{"pg_name": "tp", "ranks": list(range(200))}])[:100]
    assert metadata_of({"distributedInfo": {"pg_config": config}}, log).group_ranks == {}
    assert [problem.reason for problem in log.freeze()] == [Reason.TRUNCATED_GROUP_CONFIG]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
INFO = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("backend", "rank", "world_size", "pg_config", "nccl_version"), JSON)
)
DEVICES = st.lists(JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(("id", "name", "totalGlobalMem"), JSON)))


@settings(max_examples=40)
@given(
    st.fixed_dictionaries(
        {},
        optional={**dict.fromkeys(METADATA_KEYS, JSON), "distributedInfo": JSON | INFO, "deviceProperties": DEVICES},
    )
)
def test_any_type_for_any_field_is_survived(raw: dict[str, object]) -> None:
    found, _ = read(raw)
    assert found is not None
    assert -1 <= stated_rank(raw) < 2**63
    assert 0 <= base_time_ns(raw) < 2**63


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (5, 5),
        ("5", 5),
        (-5, -5),
        (True, 0),
        (5.0, 0),
        ("five", 0),
        (None, 0),
        ([], 0),
        (2**63, 0),
        (-(2**64), 0),
        ("9" * 5000, 0),
    ],
)
def test_numbers_are_whole_and_fit_64_bits(value: object, number: int) -> None:
    assert as_int(value, 0) == number


@pytest.mark.parametrize(("rank", "stated"), [(0, 0), ("4", 4), (-3, -1), (None, -1), ("first", -1)])
def test_stated_ranks(rank: object, stated: int) -> None:
    assert stated_rank({"distributedInfo": {"rank": rank}}) == stated


@pytest.mark.parametrize("value", [None, False, 0])
def test_a_trace_that_says_it_is_not_synthetic_is_a_measurement(tmp_path: Path, value: object) -> None:
    timeline = read_one(document([op("a", 0, 5)], synthetic=value), tmp_path)
    assert timeline.metadata.synthetic == ""


def test_what_is_null_is_missing(tmp_path: Path) -> None:
    data = document([op("a", 0, 5)], host_name=None, deviceProperties=[{"id": 0, "name": None}], rank=None)
    timeline = read_one(
        data.replace(b'"schemaVersion"', b'"distributedInfo": {"backend": null}, "schemaVersion"'), tmp_path
    )
    found = timeline.metadata
    assert (found.host, found.backend, found.devices[0].name) == ("", "", "")


def test_an_absurd_base_time_is_survived(tmp_path: Path) -> None:
    data = document([op("a", 10, 5), collective(20, 5)], baseTimeNanoseconds=2**63 - 1)
    assert summarise(read_one(data, tmp_path)).window_ns == 15_000


def test_the_base_time_is_added_to_the_first_stamp(tmp_path: Path) -> None:
    timeline = read_one(document([op("a", 10, 5)], baseTimeNanoseconds=1_790_857_026_000_000_000), tmp_path)
    assert timeline.zero_ns == 1_790_857_026_000_010_000
