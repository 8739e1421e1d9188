"""Levers on DistributedDataParallel, in a group of one: what they leave alone, and why."""

from pathlib import Path

import pytest

from tests.support.trial_jobs import TrialRunner

SCRIPT = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.NORM)
x = torch.randn(4, 8)
PREPARED
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for step in range(6):
    ddp(x).square().mean().backward()
    optimizer.step()
"""
WRAPPED = "ddp = DistributedDataParallel(model)"
HOOKED = f"{WRAPPED}; ddp.register_comm_hook(None, allreduce_hook)"
DOUBLE = f"x = x.double(); model.double(); {WRAPPED}"
SILENT = "ddp = DistributedDataParallel(model, broadcast_buffers=False)"


@pytest.mark.parametrize(
    ("lever", "norm", "prepared", "effect"),
    [
        ("bf16-hook", "ReLU()", WRAPPED, (True, "buckets are sent in bfloat16")),
        ("bf16-hook", "ReLU()", HOOKED, (False, "the script has a communication hook of its own")),
        ("bf16-hook", "ReLU()", DOUBLE, (False, "no gradients are in float32")),
        ("bf16-hook", "ReLU()", "ddp = model", (False, "no DistributedDataParallel was called")),
        ("no-broadcast-buffers", "BatchNorm1d(16)", WRAPPED, (True, "3 buffers are not broadcast")),
        ("no-broadcast-buffers", "BatchNorm1d(16)", SILENT, (False, "DDP broadcasts no buffers")),
        ("no-broadcast-buffers", "ReLU()", WRAPPED, (False, "DDP broadcasts no buffers")),
        ("no-broadcast-buffers", "ReLU()", "ddp = model", (False, "no DistributedDataParallel was called")),
    ],
)
def test_what_they_do_is_told(
    jobs: TrialRunner, tmp_path: Path, lever: str, norm: str, prepared: str, effect: tuple[bool, str]
) -> None:
    ended = jobs.run(tmp_path, SCRIPT.replace("NORM", norm).replace("PREPARED", prepared), lever, last_step=4)
    assert ended.exit_code == 0, ended
    assert ended.levers == [effect]
