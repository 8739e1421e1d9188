"""The memory ladder: rungs change one thing each, and the plan of each is what was measured of it."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import pytest

import redline
from bench.memory.ladder import ClimbedRung, tables
from bench.memory.ladder_rungs import LADDER, RUNGS, SIZES, model_config, plan_arguments
from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.plan_comparison import PlannedMemory, compare_plan
from redline.verbs.planned_memory import planned_memory
from tests.support.memory_plans import measured, planned

ACCOUNTS = (
    MemoryAccount.PARAMETERS, MemoryAccount.GRADIENTS, MemoryAccount.OPTIMIZER_STATES, MemoryAccount.ACTIVATIONS,
    MemoryAccount.LOGITS,
)  # fmt: skip
# At the peak, in MB of 10^6 bytes, as `python -m bench.memory.ladder` counted them with torch 2.13 on a CPU. The peak
# of FSDP is not here: the profiler does not see every release of gloo's buffers.
MEASURED: Mapping[str, tuple[float, ...]] = {
    "plain": (57.1, 56.7, 113.5, 799.2, 268.4),
    "cleared": (57.1, 0, 113.5, 799.2, 268.4),
    "fused-kernels": (57.1, 0, 113.5, 308.8, 268.4),
    "autocast": (57.1, 0, 113.5, 202.6, 234.9),
    "accumulation": (57.1, 56.7, 113.5, 115.1, 117.4),
    "recomputation": (57.1, 56.7, 113.5, 18.1, 117.4),
    "chunked-loss": (56.7, 56.7, 113.5, 0, 0),
    "fused-optimizer": (56.7, 56.7, 113.5, 42.3, 0),
}
PARAMETERS_MB = 56.7


def _plan(folder: Path, name: str) -> PlannedMemory:
    config = folder / "config.json"
    config.write_text(json.dumps(model_config(SIZES["first"])))
    return planned_memory(redline.plan_training(config, **plan_arguments(RUNGS[name], SIZES["first"])))


def test_each_rung_changes_one_thing() -> None:
    for before, after in pairwise(LADDER):
        changed = {name for name, value in asdict(after).items() if value != asdict(before)[name]}
        assert len(changed - {"name"}) == 1, after.name


@pytest.mark.parametrize("name", MEASURED)
def test_a_plan_is_within_a_tenth_of_every_account(name: str, tmp_path: Path) -> None:
    accounts = _plan(tmp_path, name).accounts
    for account, megabytes in zip(ACCOUNTS, MEASURED[name], strict=True):
        assert accounts[account] / 1e6 == pytest.approx(megabytes, rel=0.1, abs=0.5), account
    temporaries = accounts[MemoryAccount.TEMPORARIES] / 1e6
    assert temporaries == pytest.approx(PARAMETERS_MB if name == "chunked-loss" else 0, rel=0.1)


def test_every_rung_of_a_plan_is_below_the_one_before(tmp_path: Path) -> None:
    peaks = [_plan(tmp_path, rung.name).in_use_bytes for rung in LADDER]
    assert peaks == sorted(peaks, reverse=True)


def test_the_tables(tmp_path: Path) -> None:
    compared = compare_plan(planned(activations=12, gradients=4), [measured(tmp_path, 10)], lambda _: None)
    text = tables([ClimbedRung(name="plain", compared=compared)])
    assert "| `plain` | 16.8 | 11.5 | +45.5 % | 100% | ? |" in text
    assert "| `plain` | activations | 12.6 | 10.5 | +20.0 % |" in text
    assert "| `plain` | gradients | 4.2 | 0.0 | - |" in text
    assert "| `plain` | unknown | - | 1.0 | - |" in text
