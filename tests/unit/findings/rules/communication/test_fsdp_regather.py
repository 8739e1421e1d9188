"""RL-N07: parameters that the forward pass had gathered are gathered again in the backward pass."""

from typing import Any

import pytest

from tests.support.rules.communication import alike, exchanged, forward, node, sharded, values
from tests.support.rules.matching import found


def test_n07_claims_gathers_of_the_backward_pass() -> None:
    finding = found(*alike(sharded()))["RL-N07"]
    assert (finding.alone_ns, finding.bound_ns) == (80_000, 80_000)
    assert values(finding) == {"gathers": 1, "exposed_ns": 80_000, "step_ns": 1_000_000}


def test_n07_is_silent_where_the_forward_pass_gathers_other_sizes() -> None:
    assert "RL-N07" not in found(*alike(sharded(gathered=(1024, 2048))))


@pytest.mark.parametrize(
    "changed",
    [{"scatter_at": 70}, {"group": "[0, 2]", "gathered": (1024, 2048)}],
    ids=["scatters forward", "other ranks scatter"],
)
def test_other_gathers_are_not_of_parameters(changed: dict[str, Any]) -> None:
    """Sequence parallelism scatters in the forward pass too."""
    assert not {"RL-N06", "RL-N07"} & set(found(*alike(sharded(**changed))))


def test_gathers_of_both_passes_are_of_parameters_however_gradients_travel() -> None:
    """Gloo scatters gradients by an all-reduce, which is no bucket of DDP."""
    events = [*sharded(), *exchanged(600, 100, 5, at=460, elements=2048)]
    reduced = [event for event in events if event.get("args", {}).get("correlation") != 4]
    codes = set(found(*alike(reduced)))
    assert {"RL-N06", "RL-N07"} <= codes
    assert "RL-N01" not in codes


def test_hidden_gathers_are_no_finding() -> None:
    hidden = [event for event in sharded(computing_us=600) if event.get("args", {}).get("correlation") != 2]
    assert not {"RL-N06", "RL-N07"} & set(found(*alike(hidden)))


def test_n07_claims_gathers_of_further_micro_batches_forward_too() -> None:
    """After the first backward pass of a step, whichever pass gathers."""
    second = [
        forward(520, 20),
        *exchanged(530, 60, 6, at=525, name="_allgather_base"),
        node(600, 100),
        *exchanged(640, 50, 7, at=620, name="_allgather_base"),
    ]
    findings = found(*alike([*sharded(), *second]))
    assert findings["RL-N07"].bound_ns == 80_000 + 60_000 + 50_000
    assert values(findings["RL-N07"])["gathers"] == 3
    assert findings["RL-N06"].bound_ns == 40_000  # of the first micro-batch only
