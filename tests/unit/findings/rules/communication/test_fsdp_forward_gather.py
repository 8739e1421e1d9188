"""RL-N06: the forward pass waits for parameters to be gathered."""

from tests.conftest import op, region
from tests.unit.findings.conftest import found, step
from tests.unit.findings.rules.communication.conftest import AUTOGRAD, alike, node, sharded, values


def test_n06_claims_gathers_of_the_forward_pass() -> None:
    finding = found(*alike(sharded()))["RL-N06"]
    assert (finding.alone_ns, finding.bound_ns) == (120_000, 40_000)  # with those of the backward pass
    assert values(finding) == {"gathers": 1, "exposed_ns": 40_000, "step_ns": 1_000_000}


def test_n06_knows_small_gathers_of_fsdp_on_a_cpu_and_leaves_large_ones_alone() -> None:
    """Gloo reduces by all-reduces, so that nothing else tells; and what is large runs beside nothing anyway."""

    def gathered(elements: int) -> list[bytes]:
        described = {"Input Dims": [[elements]], "Input type": ["float"]}
        return alike(
            [
                step(0, 0, 1000),
                op("fsdp::all_gather_copy_in", 10, 20),
                region("gloo:all_gather", 40, 200, tid=7) | {"args": described},
                op("aten::mm", 300, 100, **AUTOGRAD),
                node(450, 200),
                region("Optimizer.step#SGD.step", 900, 50),
            ]
        )

    assert "RL-N06" in found(*gathered(1024))
    assert "RL-N06" not in found(*gathered(1 << 20))
