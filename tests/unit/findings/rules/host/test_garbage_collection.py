"""RL-H09: Python's garbage collector runs in the middle of steps."""

import pytest

from tests.support.events import document, op, span
from tests.support.rules.host import two_kernels
from tests.support.rules.host_record import at_ns, evidence
from tests.support.rules.matching import claimed_ns, found, matched, step


@pytest.mark.parametrize("name", ["Python GC", "<built-in function collect>"])
def test_h09_claims_the_idle_time_that_a_collection_causes(name: str) -> None:
    data = document(two_kernels(103, 500, span("python_function", name, 100, 300)))
    assert claimed_ns(data, "RL-H09") == 300_000  # from 103 us on


def test_h09_leaves_a_pause_without_a_collection_alone() -> None:
    assert "RL-H09" not in matched(document(two_kernels(103, 500, span("python_function", "collect", 100, 300))))


def test_h09_leaves_a_collection_alone_that_the_device_does_not_wait_for() -> None:
    events = two_kernels(480, 470, span("python_function", "Python GC", 100, 300))
    assert "RL-H09" not in found(document(events))


def collections(*runs: tuple[float, float]) -> dict[str, object]:
    """As Python's own callbacks told of them, from and for so many microseconds."""
    return {"begin_ns": [at_ns(begin) for begin, _ in runs], "dur_ns": [round(took * 1000) for _, took in runs]}


def test_h09_knows_collections_that_run_recorded_without_stacks() -> None:
    data = document(two_kernels(103, 500), **evidence(collections=collections((100, 300))))
    assert claimed_ns(data, "RL-H09") == 300_000


def test_h09_claims_all_of_a_collection_on_a_cpu() -> None:
    events = [step(0, 0, 1000), op("aten::mm", 0, 300), op("aten::mm", 700, 300)]
    data = document(events, **evidence(collections=collections((350, 300))))
    assert claimed_ns(data, "RL-H09") == 300_000


def test_h09_is_silent_where_none_was_recorded() -> None:
    assert "RL-H09" not in matched(document(two_kernels(103, 500), **evidence(collections=collections())))


def test_h09_leaves_what_a_compiler_collects_to_its_rule() -> None:
    compiling = op("_compile.compile_inner (dynamo_timed)", 320, 350)
    events = [step(0, 0, 1000), op("aten::mm", 0, 300), compiling, op("aten::mm", 700, 300)]
    data = document(events, **evidence(collections=collections((350, 300))))
    assert "RL-H09" not in matched(data)
