"""Levers for GPUs where there is none: refused with the reason, and the parts of them that a CPU can show."""

from pathlib import Path

import pytest
import torch

from redline.capture.levers import parse_lever
from redline.capture.worker.levers.data_loaders import _asked
from redline.capture.worker.levers.model_calls import OffloadedActivations, saved_on_host
from tests.support.trial_jobs import PLAN, TrialRunner

SCRIPT = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(4, 8)
for step in range(40):
    loss = model(x.to("cpu")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item().hex(), torch.Tensor.to.__qualname__, optimizer.param_groups[0]["capturable"])
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(
    ("lever", "why"),
    [
        ("cuda-graphs", "the model is not on a CUDA device"),
        ("capturable", "Adam has parameters on cpu, where nothing is captured"),
        ("non-blocking", "there is no CUDA device to copy to"),
        ("offload", "the model is not on a CUDA device: nothing is to be moved"),
    ],
)
def test_without_a_gpu_they_are_refused(jobs: TrialRunner, tmp_path: Path, lever: str, why: str) -> None:
    ended = jobs.run(tmp_path, SCRIPT, lever, plan=PLAN)
    assert (ended.exit_code, ended.notes, ended.errors) == (0, [], "")
    assert ended.levers == [(False, why)]
    lines = ended.output.splitlines()
    plain = jobs.run(tmp_path, SCRIPT, last_step=len(lines) + 1)
    assert [line.split()[0] for line in lines] == [line.split()[0] for line in plain.output.splitlines()]
    assert lines[0] == plain.output.splitlines()[0]


def test_what_is_kept_on_the_host_gives_the_same_gradients() -> None:
    """On a CPU the copies save nothing, but they are made and used as on a GPU."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 1))
    x = torch.randn(512, 256)
    gradients = []
    told = OffloadedActivations(parse_lever("offload"))
    for device in ("cuda", "cpu"):  # of the tensors to be moved: here, none and all
        with saved_on_host(told, device):
            loss = model(x).square().mean()
        assert (told.bytes > 0) == (device == "cpu")
        gradients.append(torch.autograd.grad(loss, list(model.parameters())))
    assert told.bytes == 2 * 512 * 1024 * 4  # what GELU has been given, and the second layer; x and the loss are small
    assert all(map(torch.equal, *gradients))


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "asked"),
    [
        ("to", ("cuda",), {}, (True, False)),
        ("to", (torch.device("cuda", 1),), {}, (True, False)),
        ("to", (0,), {}, (True, False)),
        ("to", ("cuda", torch.float16, True), {}, (True, True)),
        ("to", (), {"device": "cuda:0", "non_blocking": False}, (True, True)),
        ("to", (torch.ones(1),), {}, (False, False)),
        ("to", (torch.float16,), {}, (False, False)),
        ("to", ("cpu",), {}, (False, False)),
        ("cuda", (), {}, (True, False)),
        ("cuda", (0, True), {}, (True, True)),
    ],
)
def test_copies_to_a_device_are_told_from_others(
    name: str, args: tuple[object, ...], kwargs: dict[str, object], asked: tuple[bool, bool]
) -> None:
    assert _asked(name, args, kwargs) == asked
