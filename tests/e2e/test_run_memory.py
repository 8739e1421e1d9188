"""`redline run --memory` on real jobs: the ledger holds what the model says it holds, and leaks are named.

`redline diagnose` says the same of the same run, from its traces and from digests of them.
"""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

import redline
from redline.cli import main
from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.byte_ledger import ByteLedger
from redline.ledger.memory.device_memory import HOST, DeviceMemory
from redline.ledger.memory.rank_memory import LEAST_BYTES
from redline.ledger.memory.trace_accounts import step_phases_of, trace_accounts
from redline.ledger.memory.trace_device_memory import trace_ledger
from redline.ledger.memory.trace_memory import trace_memories
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.memory.memory_result import MemoryResult
from redline.trace.reader import read_file
from redline.verbs.digest import digest
from tests.support.running import PROGRAMS, REDLINE, TORCHRUN, finished, record

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
WITHIN = 0.001
IN_CI = ("gpt", "fsdp")
KINDS = ("gpt", "cnn", "experts", "frozen", "tied", "lora", "checkpointing", "compiled", "fsdp", "zero")
LEAKS = ("losses", "logits", "gradients", "exceptions", "copies", "history")


@pytest.fixture(scope="module")
def gpt_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of one run of the plainest model, which several tests read."""
    folder = tmp_path_factory.mktemp("gpt")
    _recorded(folder, "gpt")
    return folder


def _recorded(folder: Path, kind: str, *options: str) -> MemoryResult:
    launcher = ("--nproc-per-node", "2") if kind in ("fsdp", "zero") else ()
    words = ("--memory", "--after", "4", "--steps", "6", *launcher)
    program = (PROGRAMS / "memory_models.py", kind, "--out", folder / "held", *options)
    job = finished(folder, *REDLINE, *words, "-q", "-o", "run", "--", *program)
    assert job.process.returncode == 0, job.output
    return redline.memory(folder / "run")


def _diagnosed(folder: Path, told: MemoryResult) -> DiagnoseResult:
    """The same run, which says of memory what `redline memory` says."""
    result = redline.diagnose(folder / "run")
    memory = result.diagnosis.memory
    known = [device for device in told.devices if device.peak.live_bytes >= LEAST_BYTES]
    if not known:
        assert memory is None
        return result
    assert memory is not None
    assert not memory.left_out
    assert memory.causes == told.causes
    assert list(map(_shown, memory.devices)) == list(map(_shown, known))
    digest([folder / "run"], folder / "digests")
    assert redline.diagnose(folder / "digests").diagnosis.memory == memory
    return result


def _shown(device: DeviceMemory) -> tuple[object, ...]:
    steps = [(step.label, step.peak_bytes, step.end_bytes) for step in device.steps]
    return device.rank, device.device, device.peak.accounts, device.growth[:5], steps


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
def test_the_ledger_holds_what_the_model_says(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue("gpt_folder") if kind == "gpt" else tmp_path
    told_of_run = redline.memory(folder / "run") if kind == "gpt" else _recorded(folder, kind)
    _diagnosed(folder, told_of_run)
    devices = told_of_run.devices
    assert len(devices) == (2 if kind in ("fsdp", "zero") else 1)
    for device in devices:
        told = json.loads((folder / f"held.{device.rank}.json").read_text())
        after = _after_last_update(Path(device.file))
        if kind == "fsdp":  # threads of gloo free some copies, which torch does not record
            del told[str(MemoryAccount.COMMUNICATION)]
        for account, size in told.items():
            assert after.accounts[MemoryAccount(account)] == pytest.approx(size, rel=WITHIN), account
        assert not device.growth
        assert device.peak.accounts[MemoryAccount.ACTIVATIONS] > 0
        assert device.peak.accounts[MemoryAccount.UNKNOWN] <= 0.02 * device.peak.live_bytes


PLANNED = ("--layers", "3", "--hidden", "64", "--heads", "4", "--vocab", "512", "--no-gate", "--precision", "fp32")
LOOP = "cleared_gradients=1,logit_bytes=16"  # zero_grad after each step; the loop holds the logits


def test_a_plan_says_what_a_run_then_holds(
    gpt_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = str(tmp_path / "plan.json")
    job = ("--machine", "A100-SXM4-80GB", "--gpus", "1", "--sequence", "32", "--batch", "4", "--micro-batch", "4")
    layout = ("--recompute", "none", "--footprint", LOOP, "-q", "-o", plan)
    assert main(["plan", "train", *PLANNED, *job, *layout]) == 0
    capsys.readouterr()
    assert main(["memory", str(gpt_folder / "run"), "--plan", plan, "-q", "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)["plan"]
    for account in ("parameters", "optimizer_states", "activations", "logits_and_loss"):
        assert compared["accounts"][account]["difference_share"] == pytest.approx(0, abs=0.02), account
    assert compared["in_use"]["difference_share"] == pytest.approx(0, abs=0.01)
    assert compared["accounts"]["inputs"]["predicted_bytes"] is None
    for form in ("md", "html", "txt"):
        target = tmp_path / f"memory.{form}"
        assert main(["memory", str(gpt_folder / "run"), "--plan", plan, "-q", "-o", str(target)]) == 0
        assert "= in use" in target.read_text()


@pytest.mark.parametrize(
    "leak", [leak if leak == "copies" else pytest.param(leak, marks=pytest.mark.slow) for leak in LEAKS]
)
def test_what_a_script_keeps_of_every_step_is_named(leak: str, tmp_path: Path) -> None:
    told = _recorded(tmp_path, "gpt", "--leak", leak)
    (device,) = told.devices
    assert device.growth
    sites = [growth.site for growth in device.growth]
    assert any("memory_models.py" in site for site in sites), sites
    result = _diagnosed(tmp_path, told)
    assert "Memory of the host grows by " in " ".join(result.rendered("text").split())
    assert "RL-M02" in result.rendered("md")


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.slow)])
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
    windows = [window for rank in record(tmp_path / "run")["ranks"] for window in rank["windows"]]
    assert all(window["writing_ns"] > 0 and window["writing_cpu_ns"] > 0 for window in windows)
