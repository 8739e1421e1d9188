"""The loop from a real run to a plan: `redline run`, then `redline plan train --measured` with its folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from redline.plan.train.measured import ACCOUNTS
from tests.support.made_profile import made_profile

PROGRAM = Path(__file__).parent / "programs/plain_gpt.py"
MODEL = ["--layers", "2", "--hidden", "128", "--heads", "4", "--ffn", "512", "--vocab", "512", "--no-gate"]


def redline(*arguments: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "redline", *arguments], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_run_of_two_steps_makes_a_plan(tmp_path: Path) -> None:
    """The plan knows how the run was laid out, and gives its accounts back: all but links, which one rank has not."""
    run = tmp_path / "run"
    redline("run", "-o", str(run), "--after", "2", "--steps", "2", "--", str(PROGRAM), "4", "5")
    job = [*MODEL, "--machine", str(made_profile(tmp_path)), "--precision", "fp32", "--sequence", "64"]
    same = ["--gpus", "1", "--batch", "4", "--micro-batch", "4", "--recompute", "none", "--zero", "0"]
    plan = json.loads(redline("plan", "train", *job, *same, "--measured", str(run), "--json"))
    measured = plan["measured"]
    assert measured["inferred"] == ["batch", "micro_batch"]
    assert (measured["sequences"], measured["layout"]["dp"], measured["layout"]["micro_batch"]) == (4, 1, 4)
    told = {name: measured["accounts"][name]["measured_s"] for name in (*ACCOUNTS, "matmuls", "attention")}
    assert told["compute"] > told["matmuls"] > told["attention"] > 0
    assert told["optimizer"] > 0
    assert told["communication"] == 0
    assert sum(told[name] or 0.0 for name in ACCOUNTS) == pytest.approx(measured["step_s"])
    assert measured["after_s"] == pytest.approx(measured["step_s"], rel=0.3)
    assert plan["best"]["step_s"] == pytest.approx(measured["after_s"], rel=1e-6)
    text = " ".join(redline("plan", "train", *job, "--gpus", "2", "--batch", "16", "--measured", str(run)).split())
    assert "the measured step, account by account" in text
    assert "one rank: rates of links and overlap stay those of the software stack" in text
    assert "on a machine without published runs: never scored" in text
