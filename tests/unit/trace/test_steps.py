"""Where steps begin and end, by each anchor that a trace may offer."""

import argparse
import resource
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from redline.cli import main, values
from redline.errors import UsageError
from redline.timeline.timeline import Timeline
from redline.trace import steps as steps_module
from redline.trace.reader import ReadOptions
from redline.trace.steps import repeating_part
from tests.support.events import Event, document, kernel, op, read_one, region, span


def steps_of(timeline: Timeline) -> list[tuple[str, int, int]]:
    """Label, start and end (us) of every step."""
    steps = timeline.steps
    return [
        (timeline.text(label), start // 1000, end // 1000)
        for label, start, end in zip(steps.label.tolist(), steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True)
    ]


def is_whole_window(timeline: Timeline) -> bool:
    """Whether it is said that nothing marks the steps."""
    return "the whole window" in timeline.step_anchor


def read(events: list[Event], folder: Path, regex: str | None = None) -> Timeline:
    return read_one(document(events), folder, options=ReadOptions(step_regex=regex))


# --- a regular expression of the user ---------------------------------------------------------------------------------


def test_an_expression_that_would_search_for_ever_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(steps_module, "_SEARCH", steps_module._SEARCH.replace("10, 10", "1, 1"))
    names = [op("a" * 60 + "b", 0, 5), op("my step", 5, 5)]
    began_s = children_s()
    with pytest.raises(UsageError, match=r"'\(a\+\)\+\$' cannot be searched for: it takes too long on the names"):
        read(names, tmp_path, r"(a+)+$")
    assert children_s() - began_s < 3
    assert steps_of(read(names, tmp_path, r"^my")) == [("my step", 5, 10)]
    (tmp_path / "trace.json").write_bytes(document(names))
    assert main(["inspect", str(tmp_path / "trace.json"), "--step-regex", "(a+)+$", "--jobs", "1", "--no-cache"]) == 2
    said = "--step-regex: '(a+)+$' cannot be searched for: it takes too long on the names of this trace; simplify it"
    assert capsys.readouterr() == ("", f"redline: {said}\n")


def children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("regex", ["(", "(" * 5_000, "a{99999999999}", "[\ud800"])
def test_what_is_no_expression_is_said_in_a_line(regex: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^`step_regex=...`: .* cannot be searched for: .+$"):
        read([op("a", 0, 5)], tmp_path, regex)
    with pytest.raises(argparse.ArgumentTypeError, match="is not a regular expression: "):
        values.regex(regex)


# --- marks ------------------------------------------------------------------------------------------------------------


def test_profiler_steps_are_the_steps(tmp_path: Path) -> None:
    events = [op("early", 0, 5), *(region(f"ProfilerStep#{number}", 10 * number, 9) for number in (1, 2, 3))]
    timeline = read([*events, region("Optimizer.step#SGD.step", 15, 2)], tmp_path)
    assert steps_of(timeline) == [
        ("ProfilerStep#1", 10, 19),
        ("ProfilerStep#2", 20, 29),
        ("ProfilerStep#3", 30, 39),
    ]
    assert timeline.step_anchor == "ProfilerStep"


def test_a_step_that_is_marked_twice_counts_once(tmp_path: Path) -> None:
    marks = [region("ProfilerStep#1", 0, 10), region("ProfilerStep#1", 1, 8, tid=2), region("ProfilerStep#2", 10, 10)]
    assert steps_of(read(marks, tmp_path)) == [("ProfilerStep#1", 0, 10), ("ProfilerStep#2", 10, 20)]


def test_steps_of_2021_are_operators(tmp_path: Path) -> None:
    events = [span("Operator", "ProfilerStep*", 10 * number, 10) for number in range(3)]
    assert len(steps_of(read(events, tmp_path))) == 3


def test_a_step_ends_with_its_optimizer(tmp_path: Path) -> None:
    events = [
        op("forward", 5, 10),
        region("Optimizer.step#Adam.step", 20, 5),
        op("forward", 30, 10),
        region("Optimizer.step#Adam.step", 50, 5),
        op("after", 60, 5),
    ]
    timeline = read(events, tmp_path)
    assert steps_of(timeline) == [("Optimizer.step#Adam.step", 0, 20), ("Optimizer.step#Adam.step", 20, 50)]
    assert timeline.step_anchor == "optimizer steps (Optimizer.step#Adam.step)"
    assert timeline.zero_ns == 5_000


def test_of_two_optimizers_the_first_to_appear_ends_a_step(tmp_path: Path) -> None:
    """As a GAN has: one optimizer for the discriminator and one for the generator, both in every step."""
    events = []
    for number in range(3):
        at = 100 * number
        events += [
            op("work", at, 20),
            region("Optimizer.step#Discriminator.step", at + 30, 10),
            op("work", at + 50, 20),
            region("Optimizer.step#Generator.step", at + 80, 10),
        ]
    timeline = read(events, tmp_path)
    assert [label for label, _, _ in steps_of(timeline)] == ["Optimizer.step#Discriminator.step"] * 3
    assert [(start, end) for _, start, end in steps_of(timeline)] == [(0, 40), (40, 140), (140, 240)]


def test_rounds_of_the_data_loader(tmp_path: Path) -> None:
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    events = [*(region(name, 100 * number, 10) for number in range(3)), op("work", 50, 300)]
    timeline = read(events, tmp_path)
    assert [(start, end) for _, start, end in steps_of(timeline)] == [(0, 100), (100, 200), (200, 350)]
    assert timeline.step_anchor == "data-loader rounds"


def test_a_single_round_of_the_data_loader_is_no_step(tmp_path: Path) -> None:
    timeline = read([region("enumerate(DataLoader)#x", 0, 10), op("work", 20, 30)], tmp_path)
    assert is_whole_window(timeline)


@pytest.mark.parametrize("name", ["execute_context_2(64)_generation_0(0)", "step[DECODE bs=32]"])
def test_steps_of_a_serving_engine(tmp_path: Path, name: str) -> None:
    timeline = read([region(name, 10 * number, 8) for number in range(4)], tmp_path)
    assert [(start, end) for _, start, end in steps_of(timeline)] == [(0, 8), (10, 18), (20, 28), (30, 38)]
    assert timeline.step_anchor == "steps of the serving engine"


# --- the user's own marks ---------------------------------------------------------------------------------------------


def test_the_users_regex_comes_before_all_else(tmp_path: Path) -> None:
    events = [
        region("ProfilerStep#1", 0, 100),
        region("iteration 1", 10, 20),
        op("iteration 2", 40, 20),
        span("python_function", "iteration 3", 70, 20),
    ]
    timeline = read(events, tmp_path, r"^iteration \d$")
    assert [label for label, _, _ in steps_of(timeline)] == ["iteration 1", "iteration 2", "iteration 3"]
    assert timeline.step_anchor == r"spans named like '^iteration \\d$'"


def test_nested_matches_are_one_step(tmp_path: Path) -> None:
    timeline = read(
        [region("step outer", 0, 50), region("step inner", 10, 20), region("step outer", 50, 50)], tmp_path, "step"
    )
    assert [label for label, _, _ in steps_of(timeline)] == ["step outer", "step outer"]


def test_a_regex_that_matches_nothing_leaves_the_whole_window(tmp_path: Path) -> None:
    timeline = read([region("ProfilerStep#1", 5, 100)], tmp_path, "nothing")
    assert steps_of(timeline) == [("", 0, 100)]
    assert timeline.step_anchor.endswith("nothing is named like 'nothing'")


def test_kernels_are_no_regions(tmp_path: Path) -> None:
    timeline = read([kernel("iteration", 0, 5)], tmp_path, "iteration")
    assert timeline.step_anchor.endswith("nothing is named like 'iteration'")


# --- what repeats -----------------------------------------------------------------------------------------------------


def kernels(names: list[str], stream: int = 7) -> list[Event]:
    return [kernel(name, 10 * number, 8, correlation=number + 1, stream=stream) for number, name in enumerate(names)]


def test_kernels_that_repeat_from_step_to_step(tmp_path: Path) -> None:
    timeline = read(kernels(["embed", *["gemm", "norm"] * 6, "loss"] * 4), tmp_path)
    assert timeline.step_anchor == "a repeating sequence of 14 kernels"
    lengths = {end - start for _, start, end in steps_of(timeline)}
    assert (len(timeline.steps), lengths) == (3, {140})


def test_collectives_that_repeat_come_before_kernels(tmp_path: Path) -> None:
    names = ["ncclDevKernel_AllGather", "ncclDevKernel_AllReduce", "ncclDevKernel_AllReduce"] * 4
    timeline = read([*kernels(names, stream=20), *kernels([f"k{number}" for number in range(30)])], tmp_path)
    assert timeline.step_anchor == "a repeating sequence of 3 collectives"


def test_layers_are_not_steps(tmp_path: Path) -> None:
    """One step with 40 layers repeats inside, but much in it appears once only."""
    once = [f"once {number}" for number in range(20)]
    timeline = read(kernels([*once[:10], *["gemm", "norm", "gelu"] * 40, *once[10:]]), tmp_path)
    assert is_whole_window(timeline)
    assert len(timeline.steps) == 1


def test_a_kernel_that_comes_first_and_last_makes_no_period(tmp_path: Path) -> None:
    once = [f"once {number}" for number in range(20)]
    timeline = read(kernels(["fill", *once, "fill"]), tmp_path)
    assert is_whole_window(timeline)


def test_a_trace_without_any_order(tmp_path: Path) -> None:
    names = [f"k{number * number % 17}" for number in range(60)]
    timeline = read(kernels([*names[:30], *[f"once {number}" for number in range(30)], *names[30:]]), tmp_path)
    assert is_whole_window(timeline)


def test_a_trace_of_nothing_has_no_steps(tmp_path: Path) -> None:
    timeline = read([], tmp_path)
    assert len(timeline.steps) == 0
    assert is_whole_window(timeline)


@pytest.mark.parametrize(
    ("sequence", "found"),
    [
        ([1, 2, 3] * 5, (0, 3)),
        ([9, 1, 2, 3, 1, 2, 3, 1, 2, 3], (0, 0)),  # a tenth of it is not repeated at all
        ([1, 2, 3, 4, 5], (0, 0)),
        ([1, 1, 1, 1], (0, 1)),
        ([1, 2], (0, 0)),
        ([1], (0, 0)),
    ],
)
def test_repeating_parts(sequence: list[int], found: tuple[int, int]) -> None:
    assert repeating_part(np.array(sequence)) == found


def test_steps_are_in_order_and_apart_whatever_the_anchor(tmp_path: Path) -> None:
    events = [region("Optimizer.step#A", 10 * number, 15, tid=number % 2) for number in range(9)]
    windows = [(start, end) for _, start, end in steps_of(read(events, tmp_path))]
    assert all(before[1] <= after[0] for before, after in pairwise(windows))
    assert all(start < end for start, end in windows)
