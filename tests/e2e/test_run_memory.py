"""`redline run --memory` on real jobs: the ledger holds what the model says it holds, and leaks are named."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

import redline
from redline.analysis.memory.byte_ledger import ByteLedger
from redline.analysis.memory.device_memory import HOST, DeviceMemory
from redline.analysis.memory.memory_accounts import MemoryAccount
from redline.analysis.memory.step_phases import step_phases_of
from redline.analysis.memory.trace_accounts import trace_accounts
from redline.analysis.memory.trace_device_memory import trace_ledger
from redline.analysis.memory.trace_memory import trace_memories
from redline.trace.reader import read_file
from tests.running import PROGRAMS, REDLINE, TORCHRUN, finished

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
WITHIN = 0.001
IN_CI = ("gpt", "fsdp", "lora")
KINDS = ("gpt", "cnn", "experts", "frozen", "tied", "lora", "checkpointing", "compiled", "fsdp", "zero")
LEAKS = ("losses", "logits", "gradients", "exceptions", "copies", "history")


def _recorded(folder: Path, kind: str, *options: str) -> list[DeviceMemory]:
    launcher = ("--nproc-per-node", "2") if kind in ("fsdp", "zero") else ()
    words = ("--memory", "--after", "4", "--steps", "6", *launcher)
    program = (PROGRAMS / "memory_models.py", kind, "--out", folder / "held", *options)
    job = finished(folder, *REDLINE, *words, "-q", "-o", "run", "--", *program)
    assert job.process.returncode == 0, job.output
    return list(redline.memory(folder / "run").devices)


def _after_last_update(trace: Path) -> ByteLedger:
    """When an optimizer has just stepped, gradients and states are there as well."""
    (timeline,) = read_file(trace).timelines
    memory = next(memory for memory in trace_memories(timeline) if memory.device == HOST)
    phases = step_phases_of(timeline)
    moment = memory.moment(phases.passes.optimizer.end[-1:])
    return trace_ledger(memory, trace_accounts(memory, phases), int(moment[0]))


@pytest.mark.parametrize(
    "kind", [kind if kind in IN_CI else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
)
def test_the_ledger_holds_what_the_model_says(kind: str, tmp_path: Path) -> None:
    devices = _recorded(tmp_path, kind)
    assert len(devices) == (2 if kind in ("fsdp", "zero") else 1)
    for device in devices:
        told = json.loads((tmp_path / f"held.{device.rank}.json").read_text())
        after = _after_last_update(Path(device.file))
        for account, size in told.items():
            assert after.accounts[MemoryAccount(account)] == pytest.approx(size, rel=WITHIN), account
        assert not device.growth
        assert device.peak.accounts[MemoryAccount.ACTIVATIONS] > 0
        assert device.peak.accounts[MemoryAccount.UNKNOWN] <= 0.02 * device.peak.live_bytes


@pytest.mark.parametrize(
    "leak", [leak if leak == "copies" else pytest.param(leak, marks=pytest.mark.slow) for leak in LEAKS]
)
def test_what_a_script_keeps_of_every_step_is_named(leak: str, tmp_path: Path) -> None:
    (device,) = _recorded(tmp_path, "gpt", "--leak", leak)
    assert device.growth
    sites = [growth.site for growth in device.growth]
    assert any("memory_models.py" in site for site in sites), sites


@pytest.mark.parametrize("ranks", [1, 2])
def test_losses_output_and_saved_state_are_the_same_to_the_byte(ranks: int, tmp_path: Path) -> None:
    """With torch's warnings shown where they are the same in every run: on several ranks they are not."""
    words = ("--nproc-per-node", str(ranks)) if ranks > 1 else ()
    environment = {"TORCH_CPP_LOG_LEVEL": "WARNING"} if ranks == 1 else {}
    bare = (*TORCHRUN, *words) if ranks > 1 else (sys.executable,)
    watched = (*REDLINE, *words, "--memory", "--after", "6", "--steps", "4", "-q", "-o", tmp_path / "run", "--")
    sides = []
    for name, launcher in (("bare", bare), ("watched", watched)):
        folder = tmp_path / name
        folder.mkdir()
        job = finished(folder, *launcher, PROGRAMS / "saves_state.py", folder, environment=environment)
        assert job.process.returncode == 0, job.output
        states = [(folder / f"state.{rank}.pt").read_bytes() for rank in range(ranks)]
        sides.append((sorted(job.output.splitlines()), states))
    assert sides[0] == sides[1]
    assert len(redline.memory(tmp_path / "run").devices) == ranks
