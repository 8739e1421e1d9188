"""Lever `batch-times` in real processes: every loader of rows has larger batches, once, however often it is made."""

import importlib.util
from pathlib import Path

import pytest

from tests.support.trial_jobs import TrialRunner

SCRIPT = """
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler, TensorDataset

class Stream(IterableDataset):
    def __iter__(self):
        return iter((row,) for row in torch.arange(12.0).unsqueeze(1))

rows = TensorDataset(torch.arange(12.0).unsqueeze(1))
loader = DataLoader(LOADED)
PREPARED
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(2):
    for batch, in loader:
        model(batch.reshape(-1, 1)).mean().backward()
        optimizer.step()
        print(batch.flatten().int().tolist())
"""
COPIED = """
loader = DataLoader(loader.dataset, batch_size=loader.batch_size, sampler=SequentialSampler(rows))
"""
OF_LIGHTNING = """
from lightning.fabric.utilities.data import _update_dataloader
loader = _update_dataloader(loader, sampler=SequentialSampler(rows))
"""
OF_ACCELERATE = """
from accelerate import Accelerator
loader = Accelerator(cpu=True).prepare(loader)
"""


def needs(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed")


@pytest.mark.parametrize(
    ("loaded", "prepared"),
    [
        ("rows, 3", ""),
        ("rows, batch_size=3, num_workers=1", ""),
        ("rows, batch_size=3, drop_last=True", COPIED),
        pytest.param("rows, batch_size=3", OF_LIGHTNING, marks=needs("lightning")),
        pytest.param("rows, batch_size=3", OF_ACCELERATE, marks=needs("accelerate")),
    ],
    ids=["alone", "workers", "copied", "lightning", "accelerate"],
)
def test_batches_are_larger_once(jobs: TrialRunner, tmp_path: Path, loaded: str, prepared: str) -> None:
    script = SCRIPT.replace("LOADED", loaded).replace("PREPARED", prepared)
    ended = jobs.run(tmp_path, script, "batch-times=2")
    assert ended.exit_code == 0, ended
    assert ended.output.splitlines() == ["[0, 1, 2, 3, 4, 5]", "[6, 7, 8, 9, 10, 11]"] * 2
    assert ended.levers == [(True, "batches of 6 instead of 3")]


@pytest.mark.parametrize(
    ("loaded", "why"),
    [
        ("Stream(), batch_size=4", "an iterable dataset is left alone: it may make batches of its own"),
        (
            "rows, batch_sampler=BatchSampler(SequentialSampler(rows), 4, False)",
            "a loader is left alone: its batch_sampler is the script's own",
        ),
        ("rows, batch_size=None", "a loader is left alone: it makes no batches"),
        ("rows, batch_size=12", "a loader gives all of its 12 rows in one batch already"),
        (
            "rows, batch_size=8, drop_last=True",
            "a loader would drop all of its 12 rows: they do not fill a batch of 16",
        ),
    ],
)
def test_what_is_left_alone_says_why(jobs: TrialRunner, tmp_path: Path, loaded: str, why: str) -> None:
    script = SCRIPT.replace("LOADED", loaded).replace("PREPARED", "")
    plain = jobs.run(tmp_path, script)
    ended = jobs.run(tmp_path, script, "batch-times=2")
    assert ended.exit_code == 0, ended
    assert ended.levers == [(False, why)]
    assert ended.output == plain.output != ""


def test_batches_go_with_workers(jobs: TrialRunner, tmp_path: Path) -> None:
    script = SCRIPT.replace("LOADED", "rows").replace("PREPARED", "")
    ended = jobs.run(tmp_path, script, "workers=2", "batch-times=4")
    assert ended.levers == [(True, "2 workers"), (True, "batches of 4 instead of 1")]
    assert ended.output.splitlines() == ["[0, 1, 2, 3]", "[4, 5, 6, 7]", "[8, 9, 10, 11]"] * 2
