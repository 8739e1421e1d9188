"""RL-N06: the forward pass waits for parameters to be gathered."""

from tests.unit.findings.conftest import found
from tests.unit.findings.rules.communication.conftest import alike, sharded, values


def test_n06_claims_gathers_of_the_forward_pass() -> None:
    finding = found(*alike(sharded()))["RL-N06"]
    assert (finding.alone_ns, finding.bound_ns) == (120_000, 40_000)  # with those of the backward pass
    assert values(finding) == {"gathers": 1, "exposed_ns": 40_000, "step_ns": 1_000_000}
