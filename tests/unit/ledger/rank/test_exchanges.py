"""One rank's communication: kinds of exchanges, their sizes and partners, and what the rank did before each."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.ledger.rank.activity import activity_of
from redline.ledger.rank.backward_passes import AFTER_BACKWARD, FORWARD, OPTIMIZER, passes_of
from redline.ledger.rank.exchanges import (
    POINT_TO_POINT,
    SPENT,
    CollectiveSeries,
    Exchanges,
    PackedSpent,
    Spent,
    exchanges_of,
)
from redline.ledger.rank.idle import idle_of
from redline.timeline.timeline import Timeline
from tests.support.events import Event, collective, document, kernel, launch, op, read_one, region, span

WORLD_OF_40 = "[" + ", ".join(map(str, range(30))) + ", ...]"


def timeline_of(events: Sequence[Event], rank: int = 0, world_size: int = 4, **metadata: object) -> Timeline:
    with TemporaryDirectory() as folder:
        return read_one(document(events, rank=rank, world_size=world_size, **metadata), Path(folder))


def exchanges(
    events: Sequence[Event], rank: int = 0, world_size: int = 4
) -> tuple[Exchanges, tuple[CollectiveSeries, ...]]:
    timeline = timeline_of(events, rank, world_size)
    activity = activity_of(timeline)
    table, _, names = exchanges_of(timeline, activity, idle_of(timeline, activity), passes_of(timeline))
    return table, names


def series(args: Mapping[str, Any], rank: int = 0, world_size: int = 4, **metadata: object) -> CollectiveSeries:
    """Of an exchange with this description."""
    name = args.get("Collective name", "allreduce")
    timeline = timeline_of([collective(0, 10, name=name, args=args)], rank, world_size, **metadata)
    activity = activity_of(timeline)
    (found,) = exchanges_of(timeline, activity, idle_of(timeline, activity), passes_of(timeline))[2]
    return found


# --- kinds and sizes --------------------------------------------------------------------------------------------------


def test_exchanges_that_look_alike_are_one_series() -> None:
    events = [
        collective(0, 5),
        collective(10, 5, elements=99),
        collective(20, 5),
        collective(30, 5, name="broadcast"),
        collective(40, 5, args={"Process Group Ranks": "[0, 2]"}),
    ]
    table, found = exchanges(events)
    table.self_check()
    assert table.series.tolist() == [0, 1, 0, 2, 3]
    assert found[0] == CollectiveSeries(
        collective="all_reduce",
        group="[0, 1]",
        group_size=2,
        in_elements=1024,
        out_elements=1024,
        element_bytes=4,
        dtype="Float",
    )
    assert [one.collective for one in found] == ["all_reduce", "all_reduce", "broadcast", "all_reduce"]


def test_times_are_those_of_the_ledger() -> None:
    base_ns = 1_790_857_026_000_000_000
    timeline = timeline_of([op("a", 10, 5), collective(30, 5)], baseTimeNanoseconds=base_ns)
    activity = activity_of(timeline)
    table, _, _ = exchanges_of(timeline, activity, idle_of(timeline, activity), passes_of(timeline))
    starts, ends = table.start_ns + timeline.zero_ns, table.end_ns + timeline.zero_ns
    assert (starts.tolist(), ends.tolist()) == ([base_ns + 30_000], [base_ns + 35_000])


def test_what_was_spent_comes_out_as_it_was_packed() -> None:
    """However long a rank computes between two exchanges."""
    for most_us in (5, 300, 10**6, 10**12):
        columns = {
            name: np.array([0, number, most_us - number, most_us], np.int64)
            for number, name in enumerate(Spent.layout())
        }
        found = PackedSpent.of(Spent(**columns)).unpacked()
        assert {name: values.tolist() for name, values in found.columns().items()} == {
            name: values.tolist() for name, values in columns.items()
        }


@pytest.mark.parametrize(
    ("name", "elements_in", "elements_out", "dtype", "payload_bytes"),
    [
        ("allreduce", 1000, 1000, "Float", 4000),
        ("_allgather_base", 250, 1000, "BFloat16", 2000),  # nccl-tests: what every rank has in the end
        ("_reduce_scatter_base", 1000, 250, "Half", 2000),  # and here what every rank brings
        ("all_to_all", 1000, 1000, "Long", 8000),
        ("broadcast", 1000, 1000, "Float8_e4m3fn", 1000),
        ("allreduce", 1000, 1000, "Something", 0),
        ("allreduce", 0, 0, "Float", 0),
    ],
)
def test_the_payload_is_that_of_the_larger_side(
    name: str, elements_in: int, elements_out: int, dtype: str, payload_bytes: int
) -> None:
    found = series(
        {"Collective name": name, "In msg nelems": elements_in, "Out msg nelems": elements_out, "dtype": dtype}
    )
    assert found.payload_bytes == payload_bytes


def test_without_a_description_the_recorded_shapes_tell_the_size() -> None:
    shapes = {"Input Dims": [[[10, 10]]], "Input type": ["float"]}
    events = [op("aten::mm", 0, 5), span("user_annotation", "gloo:all_reduce", 10, 5, tid=2, args=shapes)]
    _, (found,) = exchanges(events, world_size=4)
    assert (found.collective, found.in_elements, found.element_bytes, found.group_size) == ("all_reduce", 100, 4, 4)
    assert found.payload_bytes == 400


def test_a_name_that_tells_nothing_is_unknown() -> None:
    _, (found,) = exchanges([kernel("ncclKernel_Mystery", 0, 5)])
    assert (found.collective, found.payload_bytes) == ("unknown", 0)


def test_all_ranks_of_an_exchange_have_one_key() -> None:
    ours = series({"Collective name": "_allgather_base", "In msg nelems": 10, "Out msg nelems": 30})
    theirs = series({"Collective name": "_allgather_base", "In msg nelems": 20, "Out msg nelems": 30}, rank=1)
    assert ours.matching_key == theirs.matching_key
    one, other = (series({"Collective name": "all_to_all", "In msg nelems": number}) for number in (10, 20))
    assert one.matching_key == other.matching_key


# --- passes -----------------------------------------------------------------------------------------------------------


def forward(ts: float, dur: float) -> Event:
    """An operator that autograd numbered."""
    return op("aten::mm", ts, dur, **{"Sequence number": 1, "Fwd thread id": 0})


def node(ts: float, dur: float) -> Event:
    return op("autograd::engine::evaluate_function: MmBackward0", ts, dur, tid=2)


def sent(at: float, number: int, name: str = "allreduce") -> list[Event]:
    """A collective and its launch; the kernel runs much later, as on a device that lags behind."""
    args = {"correlation": number}
    return [launch(at, number, dur=1, tid=2), collective(1000 + 10 * number, 5, name=name, args=args)]


def test_an_exchange_belongs_to_the_pass_in_which_the_host_launched_it() -> None:
    events = [
        forward(0, 10),
        *sent(5, 1, "_allgather_base"),
        node(20, 10),
        *sent(25, 2),
        forward(40, 10),
        node(60, 10),
        *sent(65, 3),
        *sent(75, 4),  # flushed after the last node
        *sent(76, 5, "_allgather_base"),  # already of the next forward pass
        region("Optimizer.step#Adam.step", 80, 10),
        *sent(85, 6),
        forward(100, 10),
        *sent(105, 7),
        node(120, 10),
        *sent(125, 8),
    ]
    table, _ = exchanges(events)
    assert table.backward.tolist() == [FORWARD, 2, 1, 1, AFTER_BACKWARD, OPTIMIZER, FORWARD, 1]


def test_without_an_optimizer_passes_are_counted_to_the_end_of_the_step() -> None:
    events = [
        region("ProfilerStep#1", 0, 50),
        region("ProfilerStep#2", 50, 50),
        *(event for at in (0, 20, 50, 70) for event in (forward(at, 5), node(at + 10, 5))),
        *(event for number, at in enumerate((11, 31, 61, 81), start=1) for event in sent(at, number)),
    ]
    assert exchanges(events)[0].backward.tolist() == [2, 1, 2, 1]


def test_what_was_launched_before_the_recording_is_taken_for_what_its_like_are() -> None:
    early = [collective(100, 5), collective(200, 5, name="broadcast")]
    events = [*early, forward(900, 5), node(910, 5), *sent(911, 1), *sent(912, 2)]
    assert exchanges(events)[0].backward.tolist() == [1, FORWARD, 1, 1]


def test_where_nothing_was_recorded_on_the_host_no_pass_is_known() -> None:
    assert exchanges([collective(0, 5)])[0].backward.tolist() == [FORWARD]


def test_a_type_is_as_it_was_described_or_recorded() -> None:
    assert series({"dtype": "BFloat16"}).dtype == "BFloat16"
    shapes = {"Input Dims": [[[10, 10]]], "Input type": ["Scalar", "c10::Half"]}
    _, (found,) = exchanges([op("aten::mm", 0, 5), span("user_annotation", "gloo:all_reduce", 10, 5, args=shapes)])
    assert (found.dtype, found.element_bytes) == ("c10::Half", 2)


# --- groups -----------------------------------------------------------------------------------------------------------


def test_long_groups_are_kept_by_their_hash() -> None:
    many, others = (str(list(range(first, first + 30))) for first in (0, 1))
    found = [series({"Process Group Ranks": members, "Group size": 30}) for members in (many, others, many)]
    assert found[0].group == found[2].group
    assert found[0].group != found[1].group
    assert len(found[0].group) <= 48
    assert found[0].group_size == 30


def test_a_list_that_the_profiler_cut_says_no_size() -> None:
    assert series({"Process Group Ranks": WORLD_OF_40, "Group size": 40}).group_size == 40
    assert series({"Process Group Ranks": WORLD_OF_40, "Group size": None}, world_size=64).group_size == 64


def test_groups_that_begin_with_the_same_ranks_are_two() -> None:
    whole, part = (series({"Process Group Ranks": WORLD_OF_40, "Group size": size}) for size in (64, 40))
    assert whole.matching_key != part.matching_key


def test_a_group_without_a_list_goes_by_its_name() -> None:
    found = series({"Process Group Ranks": "", "Process Group Name": "mesh_tp", "Group size": 8})
    assert (found.group, found.group_size) == ("mesh_tp", 8)


def test_ranks_of_a_group_are_known_where_they_are_listed() -> None:
    assert series({"Process Group Ranks": "[0, 2, 4]"}).ranks == (0, 2, 4)
    assert series({"Process Group Ranks": "", "Process Group Name": "mesh_tp"}).ranks == ()
    assert series({"Process Group Ranks": str(list(range(40)))}).ranks == ()  # kept by its hash
    assert series({"Process Group Ranks": WORLD_OF_40}).ranks == ()  # cut by the profiler


# --- partners ---------------------------------------------------------------------------------------------------------


def point(name: str, peer: int | None, group: str = "[0, 2, 4, 6]", **more: Any) -> dict[str, Any]:
    which = {} if peer is None else {"Dst Rank" if name == "send" else "Src Rank": peer}
    return {"Collective name": name, "Process Group Ranks": group, "Group size": 4, **which, **more}


def test_partners_are_numbered_within_their_group() -> None:
    sent = series(point("send", 2), rank=2, world_size=8)
    received = series(point("recv", 1), rank=4, world_size=8)
    assert (sent.collective, sent.group, sent.group_size, sent.ranks) == (POINT_TO_POINT, "2->4", 2, (2, 4))
    assert sent.matching_key == received.matching_key


def test_of_two_ranks_the_other_is_the_partner() -> None:
    assert series(point("send", None, "[0, 1]"), rank=1, world_size=2).group == "1->0"
    assert series(point("recv", None, "[0, 1]"), rank=1, world_size=2).group == "0->1"


def test_of_more_ranks_it_is_not_known() -> None:
    found = series(point("send", None), rank=2, world_size=8)
    assert (found.collective, found.group, found.group_size) == ("send", "[0, 2, 4, 6]", 4)


def test_a_partner_in_the_part_of_a_list_that_was_cut_is_not_known() -> None:
    strided = "[" + ", ".join(str(8 * number) for number in range(30)) + ", ...]"
    assert series(point("send", 5, strided), rank=0, world_size=512).group == "0->40"
    assert series(point("send", 35, strided), rank=0, world_size=512).collective == "send"


def test_unless_the_trace_lists_its_groups_elsewhere() -> None:
    strided = "[" + ", ".join(str(8 * number) for number in range(30)) + ", ...]"
    groups = [{"pg_name": "7", "ranks": [8 * number for number in range(64)]}]
    info = {"backend": "nccl", "rank": 0, "world_size": 512, "pg_config": groups}
    found = series(point("send", 35, strided, **{"Process Group Name": "7"}), distributedInfo=info)
    assert found.group == "0->280"


# --- what the rank did before -----------------------------------------------------------------------------------------


def test_what_a_rank_had_spent_when_an_exchange_began_and_ended() -> None:
    events = [
        region("ProfilerStep#1", 0, 100),
        region("enumerate(DataLoader)#x", 0, 10),
        launch(15, 1, dur=5),
        kernel("gemm", 30, 20, correlation=1),
        kernel("ncclDevKernel_AllReduce", 45, 15, correlation=2, stream=20),
        launch(20, 2, dur=2),
    ]
    timeline = timeline_of(events)
    activity = activity_of(timeline)
    table, spent, _ = exchanges_of(timeline, activity, idle_of(timeline, activity), passes_of(timeline))
    row = {name: values.tolist() for name, values in (table.columns() | spent.columns()).items()}
    assert (row["input_at_start_us"], row["host_at_start_us"]) == ([10], [10])
    assert (row["compute_at_start_us"], row["compute_at_end_us"]) == ([15], [20])
    assert (row["communication_at_start_us"], row["communication_at_end_us"]) == ([0], [10])
    assert row["exposed_ns"] == [10_000]


device_events = st.lists(
    st.tuples(
        st.integers(0, 200),
        st.integers(1, 40),
        st.sampled_from([7, 8, 20]),
        st.sampled_from(["gemm", "ncclDevKernel_AllReduce", "ncclDevKernel_Broadcast"]),
        st.integers(0, 200),
    ),
    min_size=1,
    max_size=10,
)


@given(device_events)
def test_what_was_spent_is_all_time_but_what_was_queued_or_unexplained(
    found: list[tuple[int, int, int, str, int]],
) -> None:
    events = [
        event
        for number, (start, dur, stream, name, at) in enumerate(found, start=1)
        for event in (launch(at, number), kernel(name, start, dur, stream=stream, correlation=number))
    ]
    timeline = timeline_of([region("all", 0, 250), *events])
    activity = activity_of(timeline)
    idle = idle_of(timeline, activity)
    table, spent, names = exchanges_of(timeline, activity, idle, passes_of(timeline))
    assert len(table) == sum(1 for one in found if one[3] != "gemm")
    assert int(table.exposed_ns.sum()) == activity.communicating.length_ns
    assert all(0 <= number < len(names) for number in table.series.tolist())
    unspent = idle.accounts
    for edge, times_ns in (("start", table.start_ns), ("end", table.end_ns)):
        spent_us = sum((getattr(spent, f"{name}_at_{edge}_us") for name in SPENT), start=np.zeros(len(table), np.int64))
        begin_ns = np.zeros(len(table), np.int64)
        rest_ns = sum(unspent[name].overlap_with(begin_ns, times_ns) for name in unspent if name in {"queue", "other"})
        assert (1000 * spent_us + rest_ns == times_ns).all()
