"""Lever `compile` in a real process: blocks of torch itself are compiled too."""

from pathlib import Path

from tests.support.trial_jobs import TrialRunner

SCRIPT = """
import torch
from torch import nn

model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(3)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


def test_blocks_that_are_modules_of_torch_are_compiled(jobs: TrialRunner, tmp_path: Path) -> None:
    ended = jobs.run(tmp_path, SCRIPT, "compile")
    assert ended.exit_code == 0, ended
    ((took, what),) = ended.levers
    assert took
    assert what.startswith("3 blocks (Sequential): ")
