"""The examples run as their documentation says, count the steps that were asked for, and leave nothing behind."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
ALONE = ["minimal.py", "gpt2_flaws.py", "diffusion_transformer.py", "generate.py"]
TOGETHER = ["ddp_resnet.py", "fsdp2.py"]
WITH_FRAMEWORKS = ["hf_finetune.py"]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
QUIET = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def start(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
        env={**os.environ, **QUIET},
    )


def check(folder: Path, steps: int, *command: str | Path) -> None:
    finished = start(folder, *command, "--steps", str(steps))
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines()[-1] == f"done: {steps} steps"
    assert list(folder.iterdir()) == []


@needs_torch
@pytest.mark.parametrize("name", ALONE)
def test_runs_alone(name: str, tmp_path: Path) -> None:
    check(tmp_path, 3, sys.executable, EXAMPLES / name)


@needs_torch
@pytest.mark.parametrize("name", TOGETHER)
def test_runs_on_two_processes(name: str, tmp_path: Path) -> None:
    check(tmp_path, 3, sys.executable, *TORCHRUN, EXAMPLES / name)


@needs_torch
def test_sharding_says_that_it_needs_torchrun(tmp_path: Path) -> None:
    finished = start(tmp_path, sys.executable, EXAMPLES / "fsdp2.py")
    expected = "start this with torchrun: torchrun --nproc-per-node 2 examples/fsdp2.py\n"
    assert (finished.returncode, finished.stderr) == (1, expected)


@pytest.mark.parametrize("name", WITH_FRAMEWORKS)
def test_runs_with_its_framework(name: str, tmp_path: Path) -> None:
    python = os.environ.get("REDLINE_FRAMEWORKS_PYTHON")
    if not python:
        pytest.skip("REDLINE_FRAMEWORKS_PYTHON names no python with what tests/e2e/frameworks.txt lists")
    check(tmp_path, 3, python, EXAMPLES / name, "--gradient-accumulation", "2")


def test_every_example_is_listed_and_tested() -> None:
    names = sorted(path.name for path in EXAMPLES.glob("*.py"))
    assert names == sorted([*ALONE, *TOGETHER, *WITH_FRAMEWORKS])
    assert sorted(re.findall(r"^\| \[(.+?)\]", (EXAMPLES / "README.md").read_text(), re.MULTILINE)) == names
