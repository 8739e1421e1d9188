"""Scripts run bare and under `redline run`, and what must be the same."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.fault_cases import Outcome, record_of, redline_run, run

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
TRAIN = """
import os, signal, sys, threading, time
import torch

class Descent(torch.optim.Optimizer):  # torch's own ones load its compiler, which takes longer than all that follows
    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    def add_param_group(self, group):
        self.param_groups.append({**self.defaults, **group, "params": list(group["params"])})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter -= group["lr"] * parameter.grad

    def zero_grad(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

torch.manual_seed(0)
model = torch.nn.Linear(8, 8)
optimizer = Descent(model.parameters(), lr=0.1)

def train(data=torch.ones(4, 8)):
    loss = model(data).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return float(loss.detach()).hex()
"""


def script(folder: Path, text: str, name: str = "job.py") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def watched(folder: Path, job: Path, *options: str) -> Outcome:
    """Under `redline run`, with its files in `folder / "watched/run"`."""
    return run([*redline_run(folder / "watched/run", *options), "--", str(job)], folder / "watched")


def both(folder: Path, text: str, *options: str, given: str = "") -> tuple[Outcome, Outcome]:
    """Bare and watched, from the same folder."""
    job = script(folder / "job", text)
    bare = run([sys.executable, str(job)], folder / "bare", given=given, cwd=job.parent)
    words = [*redline_run(folder / "watched/run", *options), "--", str(job)]
    return bare, run(words, folder / "watched", given=given, cwd=job.parent)


def check_same(bare: Outcome, other: Outcome) -> None:
    assert (other.status, other.stdout, other.stderr) == (bare.status, bare.stdout, bare.stderr)
    assert (other.processes, other.temporary) == ((), bare.temporary)


def rank_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = record_of(folder / "watched/run")["ranks"][0]
    return found


def states(folder: Path) -> list[str]:
    return [window["state"] for window in rank_of(folder)["windows"]]


def codes(folder: Path) -> list[str]:
    return [note["code"] for note in rank_of(folder)["notes"]]
