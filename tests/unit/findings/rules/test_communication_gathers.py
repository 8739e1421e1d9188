"""All-gathers of parameters and activations that are not hidden."""

from typing import Any

import pytest

from tests.support.events import Event, op, region
from tests.support.rules.communication import AUTOGRAD, alike, base, exchanged, forward, node, sharded, values
from tests.support.rules.matching import found, step

# RL-N06: the forward pass waits for parameters to be gathered.


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


# RL-N07: parameters that the forward pass had gathered are gathered again in the backward pass.


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


# RL-N23: tensor parallelism gathers the whole output of each layer, and the next layer splits it again.


def gathering(count: int = 4, *, elements: int = 8192, more: list[Event] | None = None) -> list[Event]:
    """So many all-gathers of 20 us each in the forward pass, and one all-reduce of 40 us in the backward pass."""
    gathers = [
        exchanged(620 + 20 * number, 20, 2 + number, at=70, elements=elements, name="_allgather_base")
        for number in range(count)
    ]
    reduced = exchanged(720, 40, 50, at=350, elements=elements)
    return [*base(), *(event for events in gathers for event in events), *reduced, *(more or [])]


def test_n23_claims_gathers_and_gains_alone_what_is_reduced_too() -> None:
    finding = found(*alike(gathering()))["RL-N23"]
    assert values(finding) == {"gathers": 4, "exposed_ns": 80_000, "step_ns": 1_000_000}
    assert (finding.bound_ns, finding.alone_ns) == (80_000, 120_000)


@pytest.mark.parametrize(
    "events",
    [
        gathering(3),
        gathering(elements=512),
        gathering(more=exchanged(770, 20, 60, at=80, elements=8192, name="_reduce_scatter_base")),
        gathering(more=exchanged(770, 20, 60, at=360, elements=8192, name="_allgather_base")),
    ],
    ids=["few", "small", "sequence parallel", "parameters"],
)
def test_n23_is_silent_about_other_gathers(events: list[Event]) -> None:
    assert "RL-N23" not in found(*alike(events))
