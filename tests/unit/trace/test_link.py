"""What belongs to what in one rank: kernels to operators and regions, backward to forward, words to collectives."""

from pathlib import Path
from typing import Any

import pytest

from redline.timeline.problems import Reason
from redline.timeline.timeline import Kind, Timeline
from redline.trace.link import elements_in
from tests.support.events import (
    Event,
    collective,
    document,
    kernel,
    launch,
    ledger_of,
    names_of,
    op,
    read_one,
    region,
    row_of,
    span,
)


def parent_of(timeline: Timeline, name: str) -> str:
    names, parent = names_of(timeline), int(timeline.spans.parent[row_of(timeline, name)])
    return names[parent] if parent >= 0 else ""


def linked_by(timeline: Timeline, column: str) -> dict[str, str]:
    """For each piece of device work the name of the span in this column, "" for none."""
    names = names_of(timeline)
    work = timeline.device_work
    return {
        names[row]: names[other] if other >= 0 else ""
        for row, other in zip(work.row.tolist(), work.columns()[column].tolist(), strict=True)
    }


def kinds_of(timeline: Timeline) -> dict[str, Kind]:
    return {name: Kind(kind) for name, kind in zip(names_of(timeline), timeline.spans.kind.tolist(), strict=True)}


# --- nesting ----------------------------------------------------------------------------------------------------------


def test_operators_calls_and_python_nest_on_their_thread(tmp_path: Path) -> None:
    events = [
        span("python_function", "train.py", 0, 100),
        op("outer", 10, 50),
        op("inner", 20, 30),
        launch(25, correlation=1),
        op("elsewhere", 20, 30, tid=2),
        kernel("k", 60, 5, correlation=1),
    ]
    timeline = read_one(document(events), tmp_path)
    assert parent_of(timeline, "outer") == "train.py"
    assert parent_of(timeline, "inner") == "outer"
    assert parent_of(timeline, "cudaLaunchKernel") == "inner"
    assert parent_of(timeline, "elsewhere") == ""
    assert parent_of(timeline, "k") == ""


def test_regions_take_no_part_as_they_may_cross_anything(tmp_path: Path) -> None:
    events = [op("outer", 0, 100), region("crossing", 50, 100), op("inner", 60, 10)]
    timeline = read_one(document(events), tmp_path)
    assert (parent_of(timeline, "inner"), parent_of(timeline, "crossing")) == ("outer", "")
    assert ledger_of(timeline) == {}


def test_an_operator_that_outlives_what_it_began_in_goes_one_further_out(tmp_path: Path) -> None:
    events = [op("a", 0, 100), op("b", 10, 30), op("crossing", 20, 50), op("in it", 50, 10)]
    timeline = read_one(document(events), tmp_path)
    assert (parent_of(timeline, "crossing"), parent_of(timeline, "in it")) == ("a", "crossing")
    assert ledger_of(timeline) == {Reason.CHILD_OUTLIVES_PARENT: 1}


# --- kernels to operators and regions ---------------------------------------------------------------------------------


def test_the_operator_of_a_kernel_is_the_innermost_around_its_launch(tmp_path: Path) -> None:
    events = [
        op("aten::linear", 0, 50),
        op("aten::addmm", 5, 40),
        span("python_function", "wrapper.py", 10, 30),
        launch(15, correlation=1),
        kernel("gemm", 100, 20, correlation=1),
    ]
    timeline = read_one(document(events), tmp_path)
    assert linked_by(timeline, "operator") == {"gemm": "aten::addmm"}
    assert linked_by(timeline, "launch") == {"gemm": "cudaLaunchKernel"}


def test_a_launch_outside_any_operator_has_none(tmp_path: Path) -> None:
    events = [op("before", 0, 5), launch(10, correlation=1), kernel("gemm", 100, 20, correlation=1)]
    assert linked_by(read_one(document(events), tmp_path), "operator") == {"gemm": ""}


def test_without_a_launch_the_external_id_names_the_operator(tmp_path: Path) -> None:
    events = [
        span("cpu_op", "first", 0, 5, args={"External id": 7}),
        span("cpu_op", "second", 10, 5, args={"External id": 8}),
        kernel("k", 50, 5, args={"External id": 8, "correlation": 99}),
        kernel("unknown", 60, 5, args={"External id": 9}),
        kernel("without", 70, 5),
    ]
    timeline = read_one(document(events), tmp_path)
    assert linked_by(timeline, "operator") == {"k": "second", "unknown": "", "without": ""}


def test_an_operator_of_that_external_id_that_began_later_is_not_meant(tmp_path: Path) -> None:
    events = [
        kernel("k", 0, 5, args={"External id": 8}),
        span("cpu_op", "later", 10, 5, args={"External id": 8}),
    ]
    assert linked_by(read_one(document(events), tmp_path), "operator") == {"k": ""}


def test_of_operators_that_share_an_external_id_the_last_before_the_kernel_is_meant(tmp_path: Path) -> None:
    events = [
        span("cpu_op", "before", 0, 5, args={"External id": 8}),
        kernel("k", 10, 5, args={"External id": 8}),
        span("cpu_op", "after", 20, 5, args={"External id": 8}),
    ]
    assert linked_by(read_one(document(events), tmp_path), "operator") == {"k": "before"}


def test_the_region_of_a_kernel_is_the_innermost_around_its_launch(tmp_path: Path) -> None:
    events = [
        region("ProfilerStep#3", 0, 100),
        region("forward", 10, 50),
        launch(20, correlation=1),
        launch(70, correlation=2),
        kernel("in forward", 80, 5, correlation=1),
        kernel("in step", 90, 5, correlation=2),
    ]
    timeline = read_one(document(events), tmp_path)
    assert linked_by(timeline, "annotation") == {"in forward": "forward", "in step": "ProfilerStep#3"}


def test_a_region_of_another_thread_counts_where_the_own_thread_has_none(tmp_path: Path) -> None:
    events = [
        region("ProfilerStep#3", 0, 100, tid=1),
        region("loss", 40, 30, tid=1),
        launch(50, correlation=1, tid=2),
        launch(80, correlation=2, tid=2),
        kernel("backward", 110, 5, correlation=1),
        kernel("later", 120, 5, correlation=2),
    ]
    timeline = read_one(document(events), tmp_path)
    assert linked_by(timeline, "annotation") == {"backward": "loss", "later": "ProfilerStep#3"}


def test_no_region_around_a_launch(tmp_path: Path) -> None:
    events = [region("early", 0, 5), launch(10, correlation=1), kernel("k", 20, 5, correlation=1)]
    assert linked_by(read_one(document(events), tmp_path), "annotation") == {"k": ""}


def test_names_that_the_profiler_lost_are_counted(tmp_path: Path) -> None:
    timeline = read_one(document([region("unknown", 0, 5), op("unknown", 10, 5), region("known", 20, 5)]), tmp_path)
    assert ledger_of(timeline) == {Reason.LOST_NAMES: 1}


# --- forward to backward ----------------------------------------------------------------------------------------------


def forward_of(timeline: Timeline) -> dict[str, str]:
    names = names_of(timeline)
    operators = timeline.operators
    return {
        names[row]: names[forward]
        for row, forward in zip(operators.row.tolist(), operators.forward.tolist(), strict=True)
        if forward >= 0
    }


def arrow(phase: str, number: int | str, ts: float, tid: int) -> Event:
    return {"ph": phase, "cat": "fwdbwd", "name": "fwdbwd", "id": number, "pid": 100, "tid": tid, "ts": ts, "bp": "e"}


def test_backward_finds_forward_by_the_profilers_arrows(tmp_path: Path) -> None:
    events = [
        op("forward one", 0, 5),
        op("forward two", 10, 5),
        op("backward two", 50, 5, tid=2),
        op("backward one", 60, 5, tid=2),
        arrow("s", 1, 0, tid=1),
        arrow("s", 2, 10, tid=1),
        arrow("f", 2, 50, tid=2),
        arrow("f", 1, 60, tid=2),
    ]
    timeline = read_one(document(events), tmp_path)
    assert forward_of(timeline) == {"backward one": "forward one", "backward two": "forward two"}


def test_an_arrow_means_the_innermost_operator_that_begins_there(tmp_path: Path) -> None:
    events = [
        op("outer", 0, 20),
        op("inner", 0, 10),
        op("backward", 50, 5, tid=2),
        arrow("s", 1, 0, tid=1),
        arrow("f", 1, 50, tid=2),
    ]
    assert forward_of(read_one(document(events), tmp_path)) == {"backward": "inner"}


@pytest.mark.parametrize("ts", [3, 999])
def test_an_arrow_that_begins_nowhere_leads_nowhere(tmp_path: Path, ts: float) -> None:
    events = [op("forward", 0, 5), op("backward", 50, 5, tid=2), arrow("s", 1, ts, tid=1), arrow("f", 1, 50, tid=2)]
    assert forward_of(read_one(document(events), tmp_path)) == {}


def test_half_an_arrow_leads_nowhere(tmp_path: Path) -> None:
    for lost in (arrow("s", 1, 0, tid=1), arrow("f", 1, 50, tid=2)):
        events = [op("forward", 0, 5), op("backward", 50, 5, tid=2), lost]
        assert forward_of(read_one(document(events), tmp_path)) == {}


def test_ids_of_arrows_may_be_texts(tmp_path: Path) -> None:
    events = [
        op("forward one", 0, 5),
        op("forward two", 10, 5),
        op("backward two", 50, 5, tid=2),
        arrow("s", "0x1", 0, tid=1),
        arrow("s", "0x2", 10, tid=1),
        arrow("f", "0x2", 50, tid=2),
    ]
    assert forward_of(read_one(document(events), tmp_path)) in ({}, {"backward two": "forward two"})


def numbered(name: str, ts: float, sequence: int, *, forward_thread: int | None = None, tid: int = 1) -> Event:
    backward = {} if forward_thread is None else {"Fwd thread id": forward_thread}
    return span("cpu_op", name, ts, 5, tid=tid, args={"Sequence number": sequence, **backward})


def test_backward_finds_forward_by_sequence_number(tmp_path: Path) -> None:
    events = [
        numbered("forward 7", 0, 7),
        numbered("forward 8", 10, 8),
        numbered("backward 8", 50, 8, forward_thread=1, tid=2),
        numbered("backward 7", 60, 7, forward_thread=1, tid=2),
        numbered("backward 9", 70, 9, forward_thread=1, tid=2),
    ]
    timeline = read_one(document(events), tmp_path)
    assert forward_of(timeline) == {"backward 7": "forward 7", "backward 8": "forward 8"}


def test_of_operators_that_share_a_sequence_number_the_last_is_meant(tmp_path: Path) -> None:
    events = [
        numbered("aten::view", 0, 7),
        numbered("aten::mm", 10, 7),
        numbered("MmBackward0", 50, 7, forward_thread=1, tid=2),
    ]
    assert forward_of(read_one(document(events), tmp_path)) == {"MmBackward0": "aten::mm"}


def test_arrows_say_more_than_numbers(tmp_path: Path) -> None:
    events = [
        numbered("by arrow", 0, 3),
        numbered("by number", 10, 7),
        numbered("backward", 50, 7, forward_thread=1, tid=2),
        arrow("s", 1, 0, tid=1),
        arrow("f", 1, 50, tid=2),
    ]
    assert forward_of(read_one(document(events), tmp_path)) == {"backward": "by arrow"}


# --- communication ----------------------------------------------------------------------------------------------------


def test_kernels_that_communicate_are_told_by_name(tmp_path: Path) -> None:
    events = [
        kernel("ncclDevKernel_AllReduce_Sum_f32", 0, 5),
        kernel("void deep_ep::intranode::dispatch<8>(int)", 10, 5),
        kernel("void at::native::reduce_kernel<512, 1>(int)", 20, 5),
        kernel("gemm", 30, 5),
    ]
    timeline = read_one(document(events), tmp_path)
    assert list(kinds_of(timeline).values()) == [Kind.COMMUNICATION, Kind.COMMUNICATION, Kind.KERNEL, Kind.KERNEL]
    words = [timeline.text(word) for word in timeline.communications.collective.tolist()]
    assert (words, timeline.communications.described.tolist()) == (["all_reduce", "expert_dispatch"], [0, 0])


def test_gloo_communicates_on_the_host_as_operator_or_region(tmp_path: Path) -> None:
    events = [region("gloo:all_reduce", 0, 5), op("gloo:broadcast", 10, 5), region("nccl:all_reduce", 20, 5)]
    timeline = read_one(document(events), tmp_path)
    assert kinds_of(timeline) == {
        "gloo:all_reduce": Kind.COMMUNICATION,
        "gloo:broadcast": Kind.COMMUNICATION,
        "nccl:all_reduce": Kind.ANNOTATION,
    }
    assert [timeline.text(word) for word in timeline.communications.collective.tolist()] == ["all_reduce", "broadcast"]


def test_regions_that_2021_wrote_as_operators_are_regions(tmp_path: Path) -> None:
    names = [
        "ProfilerStep#2",
        "Optimizer.step#SGD.step",
        "Optimizer.zero_grad#SGD.zero_grad",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    ]
    events = [span("Operator", name, 10 * number, 5) for number, name in enumerate([*names, "aten::mm"])]
    kinds = kinds_of(read_one(document(events), tmp_path))
    assert [kinds[name] for name in names] == [Kind.ANNOTATION] * 4
    assert kinds["aten::mm"] is Kind.OPERATOR


def test_the_kernels_own_description_is_taken(tmp_path: Path) -> None:
    timeline = read_one(document([collective(0, 5, elements=4096, name="_allgather_base")]), tmp_path)
    (comm,) = range(len(timeline.communications))
    comms = timeline.communications
    assert timeline.text(comms.collective[comm]) == "all_gather"
    assert (comms.in_elements[comm], comms.out_elements[comm], comms.group_size[comm]) == (4096, 4096, 2)
    assert timeline.text(comms.dtype[comm]) == "Float"
    assert (timeline.text(comms.group[comm]), timeline.text(comms.group_ranks[comm])) == ("0", "[0, 1]")
    assert comms.described[comm] == 1


def test_the_number_of_a_collective_is_its_kernels_or_that_of_the_operator_around_its_launch(tmp_path: Path) -> None:
    described: dict[str, Any] = {"Collective name": "allreduce", "In msg nelems": 5, "Process Group Name": "0"}
    events = [
        collective(100, 5, args={"Seq": 41, "correlation": 1}),
        op("record_param_comms", 0, 20, **described, Seq=42),
        launch(5, correlation=2),
        collective(110, 5, args={"correlation": 2}),
        collective(120, 5, args={"correlation": 3}),
    ]
    assert read_one(document(events), tmp_path).communications.sequence.tolist() == [41, 42, -1]


@pytest.mark.parametrize(("levels", "described"), [(0, 1), (1, 1), (3, 1), (4, 0)])
def test_else_that_of_an_operator_not_far_around_its_launch(tmp_path: Path, levels: int, described: int) -> None:
    args = {"Collective name": "allreduce", "In msg nelems": 77, "Group size": 8}
    around = [op(f"between {level}", 1 + level, 80 - 2 * level) for level in range(levels)]
    events = [
        span("cpu_op", "record_param_comms", 0, 90, args=args),
        *around,
        launch(20, correlation=1),
        kernel("ncclDevKernel_Generic", 100, 5, correlation=1),
    ]
    timeline = read_one(document(events), tmp_path)
    comms = timeline.communications
    assert comms.described.tolist() == [described]
    assert comms.in_elements.tolist() == [77 if described else -1]
    assert timeline.text(int(comms.collective[0])) == ("all_reduce" if described else "")


def test_a_region_of_the_backend_names_a_kernel_that_does_not_name_itself(tmp_path: Path) -> None:
    events = [
        region("nccl:all_to_all", 0, 50),
        launch(10, correlation=1),
        kernel("ncclDevKernel_SendRecv", 100, 5, correlation=1),
    ]
    timeline = read_one(document(events), tmp_path)
    assert [timeline.text(word) for word in timeline.communications.collective.tolist()] == ["all_to_all"]


@pytest.mark.parametrize(
    ("shapes", "elements"),
    [
        ("[[2, 3], [], [4]]", 10),
        ("[[[5], [6]]]", 11),
        ("[2, 3]", 6),
        ("[[], []]", -1),
        ("[]", -1),
        ("7", -1),
        ("not JSON", -1),
        ('["", null]', -1),
    ],
)
def test_elements_in_a_list_of_shapes(shapes: str, elements: int) -> None:
    assert elements_in(shapes) == elements


@pytest.mark.parametrize("sizes", [[2**62, 8], [-1, 5]])
def test_absurd_shapes_of_a_collective_are_not_believed(tmp_path: Path, sizes: list[int]) -> None:
    event = span("user_annotation", "gloo:all_reduce", 0, 5, args={"Input Dims": [sizes]})
    timeline = read_one(document([event, op("a", 10, 5)]), tmp_path)
    assert timeline.communications.in_elements.tolist() == [-1]


def test_without_a_description_recorded_shapes_tell_the_elements(tmp_path: Path) -> None:
    event = span("user_annotation", "gloo:all_reduce", 0, 5, args={"Input Dims": [[2, 3], [4]]})
    comms = read_one(document([event, op("a", 10, 5)]), tmp_path).communications
    assert (comms.in_elements.tolist(), comms.described.tolist()) == ([10], [0])


def test_a_region_of_the_user_names_nothing(tmp_path: Path) -> None:
    events = [
        region("my all_gather", 0, 50),
        launch(10, correlation=1),
        kernel("ncclDevKernel_AllReduce", 100, 5, correlation=1),
    ]
    timeline = read_one(document(events), tmp_path)
    assert [timeline.text(word) for word in timeline.communications.collective.tolist()] == ["all_reduce"]
