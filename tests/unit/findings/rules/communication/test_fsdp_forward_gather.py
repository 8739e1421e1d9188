"""RL-N06: the forward pass waits for parameters to be gathered."""

from typing import Any

from tests.support.events import op, region
from tests.support.rules.communication import AUTOGRAD, alike, node, sharded, values
from tests.support.rules.matching import found, step


def test_n06_claims_gathers_of_the_forward_pass() -> None:
    finding = found(*alike(sharded()))["RL-N06"]
    assert (finding.alone_ns, finding.bound_ns) == (120_000, 40_000)  # with those of the backward pass
    assert values(finding) == {"gathers": 1, "exposed_ns": 40_000, "step_ns": 1_000_000}


def test_n06_knows_small_gathers_of_fsdp_on_a_cpu_and_leaves_large_ones_alone() -> None:
    """Gloo reduces by all-reduces, so that nothing else tells; and what is large runs beside nothing anyway."""

    assert "RL-N06" in found(*alike(_on_cpu(1024)))
    assert "RL-N06" not in found(*alike(_on_cpu(1 << 20)))


def test_n06_bounds_hooks_of_fsdp_on_a_cpu_too() -> None:
    """They pack and free parameters on the same cores; a hook that exchanges nothing stays."""
    hooks = [region("FSDP::pre_forward", 5, 260), region("FSDP::post_forward", 410, 30)]
    bare, hooked = (found(*alike(events))["RL-N06"] for events in (_on_cpu(1024), [*_on_cpu(1024), *hooks]))
    assert bare.bound_ns == hooked.bound_ns == bare.alone_ns == 200_000
    assert hooked.alone_ns == 260_000


def _on_cpu(elements: int) -> list[dict[str, Any]]:
    described = {"Input Dims": [[elements]], "Input type": ["float"]}
    return [
        step(0, 0, 1000),
        op("fsdp::all_gather_copy_in", 10, 20),
        region("gloo:all_gather", 40, 200, tid=7) | {"args": described},
        op("aten::mm", 300, 100, **AUTOGRAD),
        node(450, 200),
        region("Optimizer.step#SGD.step", 900, 50),
    ]
