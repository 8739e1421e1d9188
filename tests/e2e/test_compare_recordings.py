"""`redline compare` of a real run on this CPU: with the plan of it, with another run, and with nothing private."""

import json
import time
from fractions import Fraction
from pathlib import Path

import pytest

from redline.calibration.figures import machine_of
from redline.cli import main
from redline.verbs.calibrate import Calibrated
from tests.support.command_line import run_redline
from tests.support.made_calibrations import calibration, peak

torch = pytest.importorskip("torch")

SCRIPT = """
import torch
from torch import nn


def build():
    return nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)), torch.randn(64, 256)


if __name__ == "__main__":
    torch.set_num_threads(1)
    model, batch = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(20):
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
PLAN = """plan train --model {folder}/network.py:build --machine {folder}/machine.json --gpus 1 --batch 64
--micro-batch 64 --recompute none --precision fp32"""


def flops_per_s() -> float:
    """Of a product of matrices on this CPU, the best of some."""
    matrix = torch.randn(512, 512)
    best_s = 1.0
    for _ in range(20):
        begun = time.perf_counter()
        torch.mm(matrix, matrix)
        best_s = min(best_s, time.perf_counter() - begun)
    return float(2 * 512**3 / best_s)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a profile of this CPU, the plan of a job, and the job's run."""
    folder = tmp_path_factory.mktemp("job")
    script = folder / "network.py"
    script.write_text(SCRIPT)
    rate = flops_per_s()
    measured = calibration(peaks=(peak("fp32", rate), peak("bf16", rate)))
    Calibrated(calibration=measured, machine=machine_of(measured)).save(folder / "machine.json")
    assert main([*PLAN.format(folder=folder).split(), "-q", "-o", f"{folder}/plan.json.gz"]) == 0
    ran = run_redline("run", "-q", "-o", folder / "run", "--", script)
    assert ran.returncode == 0, ran.stderr
    return folder


def test_a_plan_and_its_run(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-q", "--machine", str(job / "machine.json"), str(job / "plan.json.gz"), str(job / "run")]
    assert main(["compare", "--json", *words]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["verdict"]["judgement"] == "predicted"
    assert "The median step that was not recorded took " in record["verdict"]["text"]
    step = record["step"]
    assert min(step["before_ns"], step["after_ns"]) > 0
    exact = [Fraction(row["exact_difference_ns"]) for row in record["accounts"]]
    assert sum(exact) == Fraction(step["exact_difference_ns"])
    assert record["phases"] == []  # the plan of a module does not tell its passes apart
    assert main(["compare", *words]) == 0
    assert "before is a plan, after is a recording." in capsys.readouterr().out


def test_two_runs_have_their_memory_compared_and_no_secret_told(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(job / "run")
    assert main(["compare", "-q", "--json", "--redact", run, run]) == 0
    told = capsys.readouterr().out
    record = json.loads(told)
    assert str(job) not in told
    (resident,) = record["memory"]  # there is no accelerator here
    assert resident["before_bytes"] == resident["after_bytes"] > 10_000_000
    assert record["context"] == []
    assert main(["compare", "-q", "--lang", "zh", run, run]) == 0
    assert "单个进程的 host 内存" in capsys.readouterr().out
