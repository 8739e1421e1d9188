"""A patch of the user's script does what its levers do: places seen in real jobs, git applies it, numbers are equal."""

import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import ROOT
from tests.support.patching import apply_patch, make_diff, patched, record_places, seen_places
from tests.support.trial_jobs import TrialRunner, run_trial, trial_runner

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

FRAMEWORKS = os.environ.get("REDLINE_FRAMEWORKS_PYTHON")
needs_frameworks = pytest.mark.skipif(FRAMEWORKS is None, reason="REDLINE_FRAMEWORKS_PYTHON names no Python with them")
STEPS = 6
SCRIPT = """
import json

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 1)
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def facts(model, optimizer, loader):
    return {
        "threads": torch.get_num_threads(),
        "workers": loader.num_workers,
        "prefetch": loader.prefetch_factor,
        "fused": optimizer.param_groups[0]["fused"],
        "foreach": optimizer.param_groups[0]["foreach"],
        "dropped": all(parameter.grad is None for parameter in model.parameters()),
        "blocks compiled": sum(block._compiled_call_impl is not None for block in model.blocks),
        "compiled": model._compiled_call_impl is not None,
        "checkpointed": sum("forward" in vars(block) for block in model.blocks),
        "frozen": __import__("gc").get_freeze_count() > 10_000,
    }


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(160, 8), torch.randn(160, 1))
    loader = DataLoader(data, batch_size=16)
    model = Net().to("cpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    for x, y in loader:
        predicted = model(x)
        loss = ((predicted - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        print(loss.item().hex(), json.dumps(facts(model, optimizer, loader)))


main()
"""


@pytest.fixture(scope="module")
def jobs() -> Iterator[TrialRunner]:
    with trial_runner() as runner:
        yield runner


def _output(jobs: TrialRunner, folder: Path, script: str, *levers: str) -> tuple[list[str], list[dict[str, object]]]:
    """Of each step the loss, and what the script knows of itself."""
    ended = jobs.run(folder, script, *levers, last_step=STEPS)
    assert ended.exit_code == 0, ended.errors
    lines = [line.partition(" ") for line in ended.output.splitlines()]
    assert len(lines) == STEPS
    return [loss for loss, _, _ in lines], [json.loads(facts) for _, _, facts in lines]


# CI has most of them in one patch, in the tests after the next.
FACTS: dict[str, dict[str, object]] = {
    "workers=2": {"workers": 2, "prefetch": 2},
    "threads=2": {"threads": 2},
    "zero-grad-none": {"dropped": True},
    "autocast=bf16": {},
    "checkpoint=blocks": {"checkpointed": 3},
    "gc-freeze": {"frozen": True},
    "compile=blocks": {"blocks compiled": 3},
    "compile=root": {"compiled": True},
}


@pytest.mark.parametrize(
    ("lever", "fact"),
    [
        ("fused", {"fused": True, "foreach": None}),
        ("foreach", {"foreach": True}),
        *(pytest.param(lever, fact, marks=pytest.mark.slow) for lever, fact in FACTS.items()),
    ],
)
def test_a_patch_has_the_effect_and_the_numbers_of_its_lever(
    jobs: TrialRunner, tmp_path: Path, lever: str, fact: dict[str, object]
) -> None:
    places = record_places(jobs, tmp_path, SCRIPT)
    plain, without = _output(jobs, tmp_path, SCRIPT)
    with_lever, _ = _output(jobs, tmp_path, SCRIPT, lever)
    with_patch, facts = _output(jobs, tmp_path, patched([lever], places, tmp_path))
    assert with_patch == with_lever
    assert all(known == {**without[0], **fact} for known in facts)
    assert (without[0] != facts[0]) == bool(fact)
    assert (with_patch != plain) == (lever == "autocast=bf16") or lever.startswith("compile")


def test_all_levers_of_a_stack_in_one_patch(jobs: TrialRunner, tmp_path: Path) -> None:
    levers = ["fused", "workers=2", "prefetch=4", "zero-grad-none", "threads=2", "autocast=bf16", "checkpoint=blocks"]
    places = record_places(jobs, tmp_path, SCRIPT)
    with_levers, _ = _output(jobs, tmp_path, SCRIPT, *levers)
    with_patch, facts = _output(jobs, tmp_path, patched(levers, places, tmp_path))
    assert with_patch == with_levers
    expected = {"fused": True, "workers": 2, "prefetch": 4, "dropped": True, "threads": 2, "checkpointed": 3}
    assert facts[0].items() >= expected.items()


ON_SEVERAL_LINES = SCRIPT
for short, long in (
    ("DataLoader(data, batch_size=16)", "DataLoader(\n        data,\n        batch_size=16,  # small\n    )"),
    (
        "AdamW(model.parameters(), lr=1e-2, foreach=False)",
        "AdamW(\n        model.parameters(),\n        lr=1e-2,\n        foreach=False,  # slow\n    )",
    ),
    (
        "predicted = model(x)",
        "predicted = (\n            model(\n                x  # a batch\n            )\n        )",
    ),
    ("zero_grad(set_to_none=False)", "zero_grad(\n            set_to_none=False\n        )"),
):
    assert short in ON_SEVERAL_LINES
    ON_SEVERAL_LINES = ON_SEVERAL_LINES.replace(short, long)
NOT_ASCII = (
    SCRIPT.replace("predicted", "schätzung").replace("loader =", "größe, loader = 'é→',").replace("x, y", "x, ÿ")
)
NOT_ASCII = (
    NOT_ASCII.replace("- y)", "- ÿ)")
    .replace("optimizer = torch", "optimizer = ('größe →', torch")
    .replace("foreach=False)", "foreach=False))[1]  # 速")
)
IN_A_CLASS = (
    SCRIPT[: SCRIPT.index("def main")]
    + """
def build():
    torch.manual_seed(0)
    return Net()


class Trainer:
    def __init__(self, options):
        self.model = build()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), **options)

    def predict(self, x):
        return self.model(x)

    def train(self, loader):
        # the loop
        for x, y in loader:
            loss = ((self.predict(x) - y) ** 2).mean()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad(False)
            print(loss.item().hex(), json.dumps(facts(self.model, self.optimizer, loader)))


torch.manual_seed(1)
data = TensorDataset(torch.randn(160, 8), torch.randn(160, 1))
Trainer({"lr": 1e-2}).train(DataLoader(data, 16, False, None, None, 0))"""
)


@pytest.mark.parametrize(
    "script",
    [
        # Of one script: a byte order mark, tabs, CRLF, and no newline at the end.
        pytest.param("\ufeff" + SCRIPT.rstrip().replace("    ", "\t").replace("\n", "\r\n"), id="odd bytes"),
        pytest.param(ON_SEVERAL_LINES, id="calls over several lines"),
        pytest.param(NOT_ASCII, id="not ASCII", marks=pytest.mark.slow),
        pytest.param(IN_A_CLASS, id="in a class"),
    ],
)
def test_scripts_are_patched_as_they_are_written(jobs: TrialRunner, tmp_path: Path, script: str) -> None:
    levers = ["fused", "workers=2", "zero-grad-none", "threads=2", "autocast=bf16", "checkpoint=blocks", "gc-freeze"]
    places = record_places(jobs, tmp_path, script)
    with_levers, _ = _output(jobs, tmp_path, script, *levers)
    jobs.run(tmp_path, script, last_step=1)  # the script is as it was
    text = patched(levers, places, tmp_path)
    with_patch, facts = _output(jobs, tmp_path, text)
    assert with_patch == with_levers
    expected = {"fused": True, "workers": 2, "dropped": True, "threads": 2, "checkpointed": 3, "frozen": True}
    assert facts[0].items() >= expected.items()
    assert text.count("\r\n") in {0, text.count("\n")}
    assert text.endswith("\n") == script.endswith("\n")
    before = [line.strip() for line in script.splitlines() if line.strip()]
    kept = [line for line in before if line in {after.strip() for after in text.splitlines()}]
    assert len(before) - len(kept) <= 5  # lines that were changed


TWO_LOADERS = """
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

class Endless(IterableDataset):
    def __iter__(self):
        while True:
            yield torch.randn(8)

torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
data = TensorDataset(torch.randn(64, 8))
train, test = DataLoader(data, batch_size=8), DataLoader(data, 4, num_workers=1, persistent_workers=False)
noise = iter(DataLoader(Endless(), batch_size=2))
optimizers = [kind(model.parameters(), lr=0.1) for kind in (torch.optim.SGD, torch.optim.RMSprop)]
for (x,), (tested,) in zip(train, test):
    next(noise)
    (model(x).mean() + model(tested).mean()).backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
"""


def test_every_loader_that_the_lever_changes_is_changed(jobs: TrialRunner, tmp_path: Path) -> None:
    places = record_places(jobs, tmp_path, TWO_LOADERS)
    diff = make_diff(["workers=2", "fused", "autocast=bf16"], places, tmp_path)
    assert diff.placed == ("workers=2",)
    apply_patch(tmp_path, diff.patch)
    text = (tmp_path / "job.py").read_text()
    assert "DataLoader(data, batch_size=8, num_workers=2, persistent_workers=True)" in text
    assert "DataLoader(data, 4, num_workers=2, persistent_workers=False)" in text
    assert "DataLoader(Endless(), batch_size=2)" in text
    # One call makes optimizers with a fused form and without; the calls of the model are in a larger expression.
    assert [lever.lever for lever in diff.unplaced] == ["fused", "autocast=bf16"]
    ended = jobs.run(tmp_path, text, "workers=2", last_step=4)
    assert ended.levers[0][0] is False
    assert "a loader has 2 workers already" in ended.levers[0][1]


DDP = """
import os, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo")
torch.manual_seed(0)
layers = [torch.nn.Linear(512, 512) for _ in range(2)]
model = torch.nn.Sequential(torch.nn.Linear(8, 512), *layers, torch.nn.Linear(512, 1))
model = DDP(
    model
)
optimizer = torch.optim.AdamW(
    (parameter for parameter in model.parameters() if parameter.requires_grad)
)
for step in range(8):
    loss = model(torch.randn(4, 8)).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    if dist.get_rank() == 0:
        print(loss.item().hex(), model.gradient_as_bucket_view, model.static_graph, model.bucket_bytes_cap, flush=True)
time.sleep(0.05)
dist.destroy_process_group()
"""


def test_ranks_of_ddp(tmp_path: Path) -> None:
    levers = ["bucket-mb=1", "bucket-view", "static-graph", "fused", "zero-grad-none"]
    places = seen_places(run_trial(tmp_path, DDP, ranks=2, last_step=4, places=True))
    with_levers = run_trial(tmp_path, DDP, *levers, ranks=2, last_step=4)
    assert with_levers.exit_code == 0, with_levers.errors
    with_patch = run_trial(tmp_path, patched(levers, places, tmp_path), ranks=2, last_step=4)
    assert with_patch.exit_code == 0, with_patch.errors
    assert with_patch.output == with_levers.output
    assert {line.split(maxsplit=1)[1] for line in with_patch.output.splitlines()} == {f"True True {1 << 20}"}


ALREADY = {
    "fused": "is fused already",
    "workers=2": "a loader has 2 workers already",
    "zero-grad-none": "gradients are dropped already",
    "compile=blocks": "compiled by the script",
}
TELLS = """
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

def tell(optimizer, *_):
    line = f"{torch.get_num_threads()} threads, fused: {optimizer.param_groups[0].get('fused')}"
    print(line + chr(10), end="", flush=True)  # in one piece: ranks share a pipe

register_optimizer_step_post_hook(tell)
"""


@pytest.mark.slow  # CI has scripts of frameworks
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("example", "ranks", "unplaced"), [("gpt2_flaws", 1, ""), ("ddp_resnet", 2, "zero-grad-none")])
def test_examples(tmp_path: Path, example: str, ranks: int, unplaced: str, compiled: bool) -> None:
    script = (ROOT / "examples" / f"{example}.py").read_text()
    _check_that_nothing_is_left_to_do(tmp_path, script, unplaced, compiled=compiled, ranks=ranks)


@needs_frameworks
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("name", "unplaced"),
    [
        pytest.param("examples/hf_finetune", "fused workers=2 zero-grad-none", marks=pytest.mark.slow),
        ("tests/e2e/programs/accelerate_loop", "zero-grad-none"),
        pytest.param("tests/e2e/programs/lightning_fit", "zero-grad-none", marks=pytest.mark.slow),
    ],
)
def test_scripts_of_frameworks(tmp_path: Path, name: str, unplaced: str, compiled: bool) -> None:
    """What the user's own files make is patched; what a framework makes is told with the lines to paste."""
    script = (ROOT / f"{name}.py").read_text()
    _check_that_nothing_is_left_to_do(tmp_path, script, unplaced, compiled=compiled, python=str(FRAMEWORKS))


def _check_that_nothing_is_left_to_do(folder: Path, script: str, unplaced: str, *, compiled: bool, **how: Any) -> None:
    """A lever that is in the patch finds its change there already."""
    levers = ["threads=2", *(lever for lever in ALREADY if compiled or not lever.startswith("compile"))]
    places = seen_places(run_trial(folder, script, last_step=4, places=True, **how))
    diff = make_diff(levers, places, folder)
    assert {lever.lever for lever in diff.unplaced} == set(unplaced.split())
    assert all(lever.lines and lever.why for lever in diff.unplaced)
    apply_patch(folder, diff.patch)
    assert diff.placed[0] == "threads=2"
    text = TELLS + (folder / "job.py").read_text()
    ended = run_trial(folder, text, *diff.placed[1:], last_step=4, **how)
    assert ended.exit_code == 0, ended.errors
    told = [line for line in ended.output.splitlines() if " threads, fused: " in line]
    assert set(told) == {"2 threads, fused: True"}  # also where the Trainer of a framework makes the optimizer
    for lever, (took, what) in zip(diff.placed[1:], ended.levers, strict=True):
        assert not took, lever
        assert ALREADY[lever] in what or what == "Adam steps with a closure"  # as Lightning does: left alone
