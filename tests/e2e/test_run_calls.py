"""Inference as people write it, with gradients on or with torch.jit: each call of the model is a step."""

import importlib.util
from pathlib import Path

import pytest

from tests.support.running import REDLINE, finished, record

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

FORGOTTEN = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()
for _ in range(30):
    model(torch.randn(4, 8))
"""

SCRIPTED = """
import torch, warnings
warnings.simplefilter("ignore")
model = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval())
with torch.no_grad():
    for _ in range(30):
        model(torch.randn(4, 8))
"""


@pytest.mark.parametrize("program", [FORGOTTEN, SCRIPTED], ids=["gradients", "torch.jit"])
def test_each_call_of_the_model_is_a_step(tmp_path: Path, program: str) -> None:
    (tmp_path / "script.py").write_text(program)
    ran = finished(tmp_path, *REDLINE, "-q", "-o", tmp_path / "run", "--", tmp_path / "script.py")
    assert (ran.process.returncode, ran.output) == (0, "")
    (told,) = record(tmp_path / "run")["ranks"]
    assert (told["steps"], told["step_kind"], told["notes"]) == (30, "calls", [])
    assert [(window["state"], window["steps"]) for window in told["windows"]] == [("written", 3)]
