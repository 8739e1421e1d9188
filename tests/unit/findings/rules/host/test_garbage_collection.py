"""RL-H09: Python's garbage collector runs in the middle of steps."""

import pytest

from tests.conftest import document, span
from tests.unit.findings.conftest import claimed_ns, found, matched
from tests.unit.findings.rules.conftest import two_kernels


@pytest.mark.parametrize("name", ["Python GC", "<built-in function collect>"])
def test_h09_claims_the_idle_time_that_a_collection_causes(name: str) -> None:
    data = document(two_kernels(103, 500, span("python_function", name, 100, 300)))
    assert claimed_ns(data, "RL-H09") == 300_000  # from 103 us on


def test_h09_leaves_a_pause_without_a_collection_alone() -> None:
    assert "RL-H09" not in matched(document(two_kernels(103, 500, span("python_function", "collect", 100, 300))))


def test_h09_leaves_a_collection_alone_that_the_device_does_not_wait_for() -> None:
    events = two_kernels(480, 470, span("python_function", "Python GC", 100, 300))
    assert "RL-H09" not in found(document(events))
