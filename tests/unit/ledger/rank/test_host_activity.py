"""What the host was doing while the device waited: names, regions and call sites, adding up to the ledger."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.ledger.accounts import Account
from redline.ledger.rank.digest import digest_of
from redline.ledger.rank.host_activity import HOST_ACCOUNTS, HostActivity
from tests.support.events import Event, document, kernel, launch, op, read_one, region, span

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def doing(events: Sequence[Event]) -> tuple[HostActivity, ...]:
    """With the sums that are promised checked."""
    with TemporaryDirectory() as folder:
        digest = digest_of(read_one(document(events), Path(folder)), None)
    for account in HOST_ACCOUNTS:
        assert sum(row.time_ns for row in digest.doing if row.account == account) == digest.ledger.of(account)
    assert all(row.time_ns > 0 and row.times > 0 for row in digest.doing)
    assert [row.time_ns for row in digest.doing] == sorted((row.time_ns for row in digest.doing), reverse=True)
    return tuple(digest.doing)


def told(events: Sequence[Event]) -> dict[tuple[str, str, str], float]:
    """Time in microseconds by account, kind and name."""
    return {(row.account.value, row.kind, row.name): row.time_ns / 1000 for row in doing(events)}


def around(*inside: Event) -> list[Event]:
    """The device is idle from 20 to 102, for want of a launch."""
    return [
        launch(0, 1),
        kernel("first", 10, 10, correlation=1),
        *inside,
        launch(100, 2),
        kernel("second", 105, 10, correlation=2),
    ]


def test_operators_calls_and_what_was_not_recorded() -> None:
    found = told(around(op("aten::item", 30, 20), span("cuda_runtime", "cudaMalloc", 60, 10)))
    assert found == {
        ("host", "unrecorded", ""): 52 - 2,
        ("host", "operator", "aten::item"): 20,
        ("host", "call", "cudaMalloc"): 10,
        ("host", "call", "cudaLaunchKernel"): 4,
    }


def test_the_innermost_thing_counts() -> None:
    found = told(around(op("aten::outer", 30, 20), op("aten::inner", 35, 5)))
    assert (found["host", "operator", "aten::outer"], found["host", "operator", "aten::inner"]) == (15, 5)


def test_each_account_has_rows_of_its_own() -> None:
    wait = span("cuda_runtime", "cudaStreamSynchronize", 5, 20)
    found = told(around(wait, region(LOADER, 40, 10), op("aten::stack", 42, 5)))
    assert found["sync", "call", "cudaStreamSynchronize"] == 5
    assert found["input", "operator", "aten::stack"] == 5
    assert found["input", "unrecorded", ""] == 5


def test_a_stretch_is_cut_where_a_region_begins_or_ends() -> None:
    rows = doing(around(region("forward", 40, 30), region("elsewhere", 45, 5, tid=2)))
    silent = {row.region: (row.time_ns / 1000, row.times) for row in rows if row.kind == "unrecorded"}
    assert silent == {"": (50, 2), "forward": (30, 1)}


def test_the_site_is_the_innermost_call_of_the_users_code() -> None:
    frames = [
        span("python_function", "train.py(7): step", 25, 60),
        span("python_function", "torch/_tensor.py(100): item", 28, 30),
        span("python_function", "<built-in method item>", 29, 28),
    ]
    rows = doing(around(*frames, op("aten::item", 30, 20)))
    sites = {row.name: row.site for row in rows}
    assert sites["aten::item"] == "train.py(7): step"
    assert sites["<built-in method item>"] == "train.py(7): step"
    assert sites["train.py(7): step"] == "train.py(7): step"
    assert sites["cudaLaunchKernel"] == ""


@pytest.mark.parametrize(
    "frame",
    [
        "torch/optim/adam.py(3): step",
        "/usr/lib/python3.11/site-packages/torch/nn/modules/linear.py(5): forward",
        "<built-in function linear>",
        "nn.Module: Linear_0",
        "threading.py(953): run",
    ],
)
def test_code_of_torch_and_python_is_nobodys_site(frame: str) -> None:
    rows = doing(around(span("python_function", frame, 25, 60)))
    assert {row.site for row in rows} == {""}


def test_the_region_is_the_innermost_that_is_no_step() -> None:
    marks = [region("ProfilerStep#3", 0, 120), region("forward", 22, 50), region("attention", 28, 30)]
    rows = doing(around(*marks, op("aten::item", 30, 20)))
    regions = {(row.name, row.region) for row in rows}
    assert ("aten::item", "attention") in regions
    assert ("cudaLaunchKernel", "") in regions


def test_a_region_of_another_thread_counts_where_the_own_has_none() -> None:
    rows = doing(around(region("backward", 22, 60, tid=2), op("aten::item", 30, 20)))
    assert {row.region for row in rows if row.name == "aten::item"} == {"backward"}


def test_stretches_are_counted() -> None:
    (row,) = [row for row in doing(around(op("aten::a", 30, 5), op("aten::a", 50, 5))) if row.name == "aten::a"]
    assert (row.time_ns, row.times) == (10_000, 2)


def test_queued_and_unexplained_time_is_put_down_to_nobody() -> None:
    assert {row.account for row in doing(around())} == {Account.HOST}
    assert doing([kernel("a", 0, 10), kernel("b", 30, 10)]) == ()


host_events = st.lists(
    st.tuples(
        st.integers(0, 300),
        st.integers(0, 80),
        st.sampled_from([1, 2]),
        st.sampled_from(["aten::mm", LOADER, "around", "cudaStreamSynchronize", "train.py(1): f"]),
    ),
    max_size=12,
)
launched = st.lists(
    st.tuples(st.integers(0, 300), st.integers(0, 20), st.integers(0, 40), st.sampled_from([1, 2])), max_size=6
)


def _host(start: int, dur: int, tid: int, name: str) -> Event:
    category = {"aten": "cpu_op", "cuda": "cuda_runtime", "trai": "python_function"}.get(name[:4], "user_annotation")
    return span(category, name, start, dur, tid=tid)


@given(host_events, launched)
def test_rows_add_up_to_the_ledger_whatever_overlaps(
    host: list[tuple[int, int, int, str]], work: list[tuple[int, int, int, int]]
) -> None:
    events = [
        event
        for number, (at, later, dur, tid) in enumerate(work, start=1)
        for event in (launch(at, number, tid=tid), kernel("k", at + later, dur, correlation=number))
    ]
    doing([region("everything", 0, 400), *(_host(*one) for one in host), *events])
