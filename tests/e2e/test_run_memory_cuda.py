"""`redline run --memory` where a GPU is: the ledger of the device, and the snapshot that an OutOfMemoryError leaves.

Written against torch's documentation; it runs on machines with CUDA and is skipped elsewhere.
"""

import importlib.util
from pathlib import Path

import pytest

import redline
from redline.ledger.accounts import MemoryAccount
from tests.support.running import REDLINE, finished

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
JOB = """
import torch

model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(12):
    loss = model(torch.rand(256, 1024, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
FAILS = """
kept = []
while True:
    kept.append(torch.empty(1 << 30, dtype=torch.uint8, device="cuda"))
"""


def test_the_ledger_of_a_device(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    job = finished(tmp_path, *REDLINE, "--memory", "--after", "4", "--steps", "4", "-q", "-o", "run", "--", "job.py")
    assert job.process.returncode == 0, job.output
    device = next(device for device in redline.memory(tmp_path / "run").devices if not device.is_host)
    parameters = 4 * (1024 * 1024 + 1024) * 4
    assert device.peak.accounts[MemoryAccount.PARAMETERS] == pytest.approx(parameters, rel=0.001)
    assert device.peak.accounts[MemoryAccount.OPTIMIZER_STATES] == pytest.approx(2 * parameters, rel=0.001)
    assert sum(device.peak.accounts.values()) == device.peak.reserved_bytes


def test_a_failed_request_leaves_a_snapshot_with_its_history(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB + FAILS)
    job = finished(tmp_path, *REDLINE, "--memory", "--after", "4", "--steps", "4", "-q", "-o", "run", "--", "job.py")
    assert job.process.returncode == 1
    assert "OutOfMemoryError" in job.output
    failure = redline.memory(tmp_path / "run" / "memory-rank-0.pickle").first.failure
    assert failure is not None
    assert failure.asked_bytes == 1 << 30
    assert "job.py" in failure.site
