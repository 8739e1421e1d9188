"""RL-N05: gradients travel in fp32, and the time that takes is exposed."""

import pytest

from tests.support.events import op, region
from tests.support.rules.communication import AUTOGRAD, alike, base, exchanged, node, values
from tests.support.rules.matching import found, step


@pytest.mark.parametrize("name", ["allreduce", "_reduce_scatter_base"])
def test_n05_claims_half_of_the_transfer_as_far_as_it_is_exposed(name: str) -> None:
    finding = found(*alike([*base(), *exchanged(550, 150, 2, at=450, name=name)]))["RL-N05"]
    assert finding.alone_ns == 75_000
    assert finding.bound_ns == (0 if name == "allreduce" else 75_000)  # RL-N01 claims the same time first
    assert values(finding) == {"open_ns": 150_000, "exposed_ns": 100_000, "step_ns": 1_000_000}
    assert [(place.start_ns, place.end_ns) for place in finding.places] == [(625_000, 700_000)] * 2


def test_n05_is_silent_about_other_types() -> None:
    assert "RL-N05" not in found(*alike([*base(), *exchanged(600, 100, 2, at=450, dtype="BFloat16")]))


def test_n05_is_silent_below_a_twentieth_of_the_step() -> None:
    assert "RL-N05" not in found(*alike([*base(), *exchanged(600, 49, 2, at=450)]))
    assert "RL-N05" in found(*alike([*base(), *exchanged(600, 51, 2, at=450)]))


def test_n05_is_silent_on_a_cpu_where_the_hook_of_ddp_refuses_gloo() -> None:
    events = [
        step(0, 0, 1000),
        op("aten::mm", 10, 200, **AUTOGRAD),
        node(250, 200),
        region("gloo:all_reduce", 400, 400, tid=7) | {"args": {"Input Dims": [[64]], "Input type": ["float"]}},
        region("Optimizer.step#SGD.step", 900, 50),
    ]
    findings = found(*alike(events))
    assert "RL-N05" not in findings
