"""Lever `clip-foreach` in real processes: gradients are clipped the same, all at a time."""

from pathlib import Path

import pytest

from tests.support.trial_jobs import PLAN, TrialRunner

SCRIPT = """
import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
x = torch.randn(4, 8) * 100
called = []
for name in ("_foreach_norm", "_foreach_clamp_min_"):
    def watched(*args, name=name, plain=getattr(torch, name)):
        called.append(name)
        return plain(*args)
    setattr(torch, name, watched)
for step in range(40):
    called.clear()
    model(x).square().mean().backward()
    CLIPPED
    print(bool(called), round(sum(p.grad.double().square().sum().item() for p in model.parameters()), 5))
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("clipped", "named"),
    [
        ("clip_grad_norm_(model.parameters(), 1.0, foreach=False)", "_foreach_norm"),
        ("clip_grad_norm_(iter(model.parameters()), 1.0, 2.0, False, False)", "_foreach_norm"),
        ("torch.nn.utils.clip_grad_value_(model.parameters(), 0.01, False)", "_foreach_clamp_min_"),
    ],
)
def test_all_gradients_are_clipped_at_a_time(jobs: TrialRunner, tmp_path: Path, clipped: str, named: str) -> None:
    script = SCRIPT.replace("CLIPPED", clipped)
    ended = jobs.run(tmp_path, script, "clip-foreach", plan=PLAN)
    assert (ended.exit_code, ended.notes, ended.errors) == (0, [], "")
    assert ended.levers == [(True, "gradients are clipped all at a time")]
    plain = jobs.run(tmp_path, script, last_step=len(ended.output.splitlines()))
    for step, (line, untouched) in enumerate(zip(ended.output.splitlines(), plain.output.splitlines(), strict=True), 1):
        assert line == untouched.replace("False", str(PLAN.is_changed(step))), step
    assert "True" in ended.output


@pytest.mark.parametrize(
    ("clipped", "why"),
    [
        ("clip_grad_norm_(model.parameters(), 1.0)", "the script leaves it to torch, which does so where it can"),
        ("pass", "no function of torch has clipped gradients"),
    ],
)
def test_what_changes_nothing_says_so(jobs: TrialRunner, tmp_path: Path, clipped: str, why: str) -> None:
    ended = jobs.run(tmp_path, SCRIPT.replace("CLIPPED", clipped), "clip-foreach", last_step=4)
    assert ended.exit_code == 0, ended
    assert ended.levers == [(False, why)]


def test_a_wrong_call_fails_as_without_it(jobs: TrialRunner, tmp_path: Path) -> None:
    ended = jobs.run(tmp_path, SCRIPT.replace("CLIPPED", "clip_grad_norm_()"), "clip-foreach", last_step=4)
    assert ended.exit_code == 1
    assert "TypeError: clip_grad_norm_() missing 2 required positional arguments" in ended.errors
