"""RL-D02: the worker processes of the data loader do not keep up."""

from tests.conftest import document, region
from tests.unit.findings.conftest import launched, matched, step
from tests.unit.findings.rules.input.conftest import WORKERS


def test_d02_leaves_a_loader_alone_that_the_device_does_not_wait_for() -> None:
    events = [step(0, 0, 1000), *launched("gemm", 3, 900, 1, at=0), region(WORKERS, 10, 500)]
    assert "RL-D02" not in matched(document([*events, *launched("gemm", 903, 50, 2, at=600)]))
