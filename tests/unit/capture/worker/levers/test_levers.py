"""Levers in real processes: each takes where it should, says why where it cannot, and leaves the rest alone."""

from itertools import pairwise
from pathlib import Path

import pytest

from redline.capture.block_plan import WARM_UP
from redline.capture.lever_kinds import KINDS, NUMBER
from redline.capture.levers import parse_lever
from redline.capture.worker.levers.lever import make_lever
from tests.support.trial_jobs import LAST, PLAN, TrialEnd, TrialRunner

MODEL = """
import torch
torch.manual_seed(0)

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))

model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Sequential(Block(), Block()), torch.nn.Linear(16, 1))
x, y = torch.randn(32, 8), torch.randn(32, 1)
"""
LOOP = (
    MODEL
    + """
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(40):
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    print(loss.item().hex())
"""
)


@pytest.fixture(scope="module")
def untouched(jobs: TrialRunner, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The losses of the job without a lever."""
    ended = jobs.run(tmp_path_factory.mktemp("untouched"), LOOP, last_step=LAST)
    assert ended.exit_code == 0, ended.errors
    assert ended.steps == [LAST]
    return ended.output.split()


def _is_sound(ended: TrialEnd) -> bool:
    return ended.exit_code == 0 and ended.notes == [] and ended.errors == ""


def test_every_lever_is_made() -> None:
    """Those of the environment need no class of their own."""
    values = {"switch": "name", "sdpa": "math"}
    for name, kind in KINDS.items():
        assert bool(kind.environment) != bool(kind.applied_by), name
        value = values.get(name, "2" if kind.values == NUMBER else kind.default)
        if not kind.environment:
            made = make_lever(parse_lever(f"{name}={value}" if value else name))
            assert type(made).__name__ == kind.applied_by.partition(":")[2]


@pytest.mark.parametrize(
    ("lever", "what"),
    [
        ("foreach", "AdamW: foreach"),
        ("threads=2", "2 threads instead of 1"),
        ("zero-grad-none", "zero_grad(set_to_none=False) drops gradients"),
        ("checkpoint=blocks", "2 blocks, computed again in the backward pass"),
    ],
)
def test_levers_that_change_no_bit_here(
    jobs: TrialRunner, untouched: list[str], tmp_path: Path, lever: str, what: str
) -> None:
    ended = jobs.run(tmp_path, LOOP, lever, plan=PLAN)
    assert _is_sound(ended), ended
    assert ended.levers == [(True, what)]
    assert ended.output.split() == untouched[: len(ended.output.split())]


@pytest.mark.parametrize(("lever", "what"), [("fused", "AdamW: fused"), ("autocast=bf16", "Addmm in bfloat16")])
def test_levers_that_change_bits_do_so_only_while_they_are_on(
    jobs: TrialRunner, untouched: list[str], tmp_path: Path, lever: str, what: str
) -> None:
    ended = jobs.run(tmp_path, LOOP, lever, plan=PLAN)
    assert _is_sound(ended), ended
    assert ended.levers == [(True, what)]
    losses = ended.output.split()
    assert losses[:WARM_UP] == untouched[:WARM_UP]
    assert losses != untouched[: len(losses)]
    whole = jobs.run(tmp_path, LOOP, lever, last_step=LAST)
    assert whole.levers == [(True, what)]
    assert whole.output.split() != losses


def test_off_is_bitwise_the_untouched_job_after_it_was_on(jobs: TrialRunner, tmp_path: Path) -> None:
    """With a learning rate of 0 nothing moves: each step shows whether it was computed as without a lever."""
    script = LOOP.replace("lr=1e-2", "lr=0.0")
    plain = jobs.run(tmp_path, script, last_step=LAST).output.split()
    ended = jobs.run(tmp_path, script, "autocast", "fused", "checkpoint", "threads=2", plan=PLAN)
    assert _is_sound(ended), ended
    losses = ended.output.split()
    for step, loss in enumerate(losses, 1):
        assert (loss == plain[0]) == (not PLAN.is_changed(step)), step


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ("torch.optim.LBFGS(model.parameters())", "LBFGS has no fused implementation"),
        ("torch.optim.AdamW(model.parameters(), fused=True)", "AdamW is fused already"),
        ("torch.optim.AdamW([p * 1 for p in model.parameters()], differentiable=True)", "AdamW is differentiable"),
        ("torch.optim.Rprop(model.parameters())", "Rprop has no fused implementation"),
        ("torch.optim.Adam(model.to(torch.complex64).parameters())", "Adam has no fused kernel for cpu complex64"),
        ("Own(model.parameters(), lr=0.1)", "Own is not of torch.optim"),
    ],
)
def test_fused_leaves_optimizers_alone_that_cannot(jobs: TrialRunner, tmp_path: Path, made: str, why: str) -> None:
    script = (
        MODEL
        + f"""
class Own(torch.optim.SGD):
    def step(self, closure=None):
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.sub_(group["lr"] * parameter.grad)

model = torch.nn.Linear(8, 1)
optimizer = {made}
x = x.to(next(model.parameters()).dtype)

def closure():
    optimizer.zero_grad()
    loss = ((model(x) - y).abs() ** 2).mean()
    loss.backward()
    return loss

for step in range(4):
    if isinstance(optimizer, torch.optim.LBFGS):
        optimizer.step(closure)
    else:
        closure()
        with torch.no_grad():
            optimizer.step()
"""
    )
    ended = jobs.run(tmp_path, script, "fused", last_step=3)
    assert ended.exit_code == 0, ended
    assert ended.levers == [(False, why)]


CLOSURE = """
def closure():
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    return loss

for step in range(6):
    optimizer.step(closure)
"""


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("model = torch.nn.Linear(8, 1)", (True, "SGD: fused")),
        (
            "x = torch.arange(4); model = torch.nn.Embedding(8, 2, sparse=True)",
            (False, "SGD has sparse gradients"),
        ),
    ],
)
def test_a_closure_makes_the_gradients_in_the_step(
    jobs: TrialRunner, tmp_path: Path, made: str, told: tuple[bool, str]
) -> None:
    """As Lightning steps. Sparse gradients, which fused kernels cannot take, are seen after the first step."""
    script = f"{MODEL}\n{made}\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n{CLOSURE}"
    ended = jobs.run(tmp_path, script, "fused", last_step=5)
    assert ended.exit_code == 0, ended
    assert ended.levers == [told]


@pytest.mark.parametrize(("first", "second"), [("fused", "foreach"), ("foreach", "fused")])
def test_a_second_lever_on_the_kernels_of_an_optimizer_is_refused(
    jobs: TrialRunner, tmp_path: Path, first: str, second: str
) -> None:
    script = LOOP.replace("print(", "print(*(optimizer.param_groups[0][flag] for flag in ('fused', 'foreach')), ")
    ended = jobs.run(tmp_path, script, first, second, plan=PLAN)
    assert _is_sound(ended), ended
    why = f"AdamW has lever {first} on: each would set the other's flag back"
    assert ended.levers == [(True, f"AdamW: {first}"), (False, why)]
    on = f"{first == 'fused'} {first == 'foreach'}"
    flags = [line.rpartition(" ")[0] for line in ended.output.splitlines()]
    assert flags == [on if PLAN.is_changed(step) else "None None" for step in range(1, len(flags) + 1)]


NORMED = (
    MODEL.replace("torch.nn.Linear(16, 32)", "torch.nn.Sequential(torch.nn.Linear(16, 32), NORM)")
    + """
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for step in range(6):
    ((model(x) - y) ** 2).mean().backward()
    optimizer.step()
    print(*(buffer.double().sum().item().hex() for buffer in model.buffers()))
"""
)


@pytest.mark.parametrize(
    ("norm", "effect"),
    [
        ("BatchNorm1d(32)", (False, "2 blocks left alone: a second pass would update running statistics twice")),
        ("BatchNorm1d(32).eval()", (True, "2 blocks, computed again in the backward pass")),
        ("LayerNorm(32)", (True, "2 blocks, computed again in the backward pass")),
    ],
)
def test_checkpoint_leaves_blocks_alone_that_gather_statistics(
    jobs: TrialRunner, tmp_path: Path, norm: str, effect: tuple[bool, str]
) -> None:
    script = NORMED.replace("NORM", f"torch.nn.{norm}")
    plain = jobs.run(tmp_path, script, last_step=5)
    ended = jobs.run(tmp_path, script, "checkpoint", last_step=5)
    assert _is_sound(ended), ended
    assert ended.levers == [effect]
    assert ended.output == plain.output


def test_counters_of_adam_and_several_optimizers_survive_switching(jobs: TrialRunner, tmp_path: Path) -> None:
    script = (
        MODEL
        + """
torch.set_default_dtype(torch.float64)
half = torch.optim.Adam(model[0].parameters(), lr=1e-2)
rest = torch.optim.SGD(model[1:].parameters(), lr=1e-2, momentum=0.9)
scaler = torch.amp.GradScaler("cpu")
for step in range(40):
    for part in range(2):
        scaler.scale(((model(x) - y) ** 2).mean() / 2).backward()
    for optimizer in (half, rest):
        scaler.step(optimizer)
    scaler.update()
    for optimizer in (half, rest):
        optimizer.zero_grad()
    counters = [state["step"] for state in half.state.values()]
    print(*{f"{int(counter)} {counter.dtype} {half.param_groups[0]['fused']}" for counter in counters})
"""
    )
    ended = jobs.run(tmp_path, script, "fused", plan=PLAN)
    assert _is_sound(ended), ended
    assert ended.levers == [(True, "Adam: fused; SGD: fused")]
    expected = [f"{step} torch.float{'32 True' if PLAN.is_changed(step) else '64 None'}" for step in range(1, LAST + 1)]
    lines = ended.output.splitlines()
    assert lines == expected[: len(lines)]


LOADER = """
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

class Numbers(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, at):
        return torch.tensor([float(at)])

class Stream(IterableDataset):
    def __iter__(self):
        return iter(Numbers()[at] for at in range(12))

torch.manual_seed(0)
loader = DataLoader(LOADED)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(3):
    for batch in loader:
        model(batch).mean().backward()
        optimizer.step()
        print(batch.flatten().tolist(), torch.rand(1).item())
"""


def test_workers_give_the_same_batches_in_all_epochs(jobs: TrialRunner, tmp_path: Path) -> None:
    script = LOADER.replace("LOADED", "Numbers(), batch_size=4, shuffle=True")
    plain = jobs.run(tmp_path, script)
    ended = jobs.run(tmp_path, script, "workers=2", "prefetch=3")
    assert _is_sound(ended), ended
    assert ended.levers == [(True, "2 workers"), (True, "3 batches ahead per worker")]
    assert ended.output == plain.output
    assert len(plain.output.splitlines()) == 9


def test_a_loader_that_is_made_from_a_changed_one_has_its_workers(jobs: TrialRunner, tmp_path: Path) -> None:
    """As Accelerate makes its own from that of the script."""
    script = LOADER.replace("LOADED", "Numbers(), batch_size=4, shuffle=True")
    copied = "persistent_workers=loader.persistent_workers, prefetch_factor=loader.prefetch_factor"
    made = f"loader = torch.utils.data.DataLoader(loader.dataset, 4, True, num_workers=loader.num_workers, {copied})\n"
    lines = script.splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.startswith("loader = "))
    script = "".join([*lines[: at + 1], made, *lines[at + 1 :]])
    plain = jobs.run(tmp_path, script)
    ended = jobs.run(tmp_path, script, "workers=2", "prefetch=3")
    assert _is_sound(ended), ended
    assert ended.levers == [(True, "2 workers"), (True, "3 batches ahead per worker")]
    assert ended.output == plain.output


@pytest.mark.parametrize(
    ("loaded", "lever", "why"),
    [
        (
            "Stream(), batch_size=4",
            "workers=2",
            "an iterable dataset is left alone: each worker would give all of its data",
        ),
        ("Numbers(), 4", "workers=0", "a loader has 0 workers already"),
        ("Numbers(), batch_size=4", "prefetch=4", "a loader has no workers"),
        ("Numbers(), batch_size=4", "pin-memory", "there is no accelerator to copy to"),
        ("Numbers(), batch_size=4", "bucket-mb=1", "the script makes no DistributedDataParallel"),
        ("Numbers(), batch_size=4", "channels-last", "no 4-d parameters in another layout"),
        ("Numbers(), batch_size=4", "cudnn-benchmark", "there are no convolutions on a CUDA device"),
        ("Numbers(), batch_size=4", "checkpoint", "Linear repeats no blocks"),
        ("Numbers(), batch_size=4", "zero-grad-none", "zero_grad was not called"),
        ("Numbers(), batch_size=4", "threads=1", "there are 1 threads without it"),
        ("Numbers(), batch_size=4", "malloc-arenas=1", "the process began without MALLOC_ARENA_MAX"),
        ("Numbers(), batch_size=4", "switch=new", "the script never asked for 'new'"),
        ("Numbers(), batch_size=4", "matmul-precision=high", "float32 products have the same bits on cpu"),
    ],
)
def test_what_changes_nothing_says_so(jobs: TrialRunner, tmp_path: Path, loaded: str, lever: str, why: str) -> None:
    ended = jobs.run(tmp_path, LOADER.replace("LOADED", loaded), lever, last_step=4)
    assert _is_sound(ended), ended
    assert ended.levers == [(False, why)]
    assert ended.steps == [4]


def test_fewer_workers_drop_what_only_workers_may_have(jobs: TrialRunner, tmp_path: Path) -> None:
    loaded = "Numbers(), batch_size=4, num_workers=1, prefetch_factor=2, persistent_workers=True, timeout=30"
    ended = jobs.run(tmp_path, LOADER.replace("LOADED", loaded), "workers=0", last_step=4)
    assert ended.exit_code == 0, ended
    assert ended.levers == [(True, "0 workers")]


CONVOLUTIONS = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Conv2d(8, 4, 1), torch.nn.Conv2d(4, 4, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
x = torch.randn(2, 3, 8, 8)
for step in range(40):
    model(x).square().mean().backward()
    buffers = [state["momentum_buffer"] for state in optimizer.state.values()]
    tensors = [model[0].weight, model[0].weight.grad, *buffers[:1]]
    print(*{tensor.is_contiguous(memory_format=torch.channels_last) for tensor in tensors})
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
"""


def test_channels_last_converts_all_that_belongs_together_and_back(jobs: TrialRunner, tmp_path: Path) -> None:
    ended = jobs.run(tmp_path, CONVOLUTIONS, "channels-last", plan=PLAN)
    assert _is_sound(ended), ended
    assert ended.levers == [(True, "2 parameters, 1 inputs per call in channels-last")]
    lines = ended.output.split()
    assert lines == [str(PLAN.is_changed(step)) for step in range(1, len(lines) + 1)]


OUTPUTS = """
import torch
from dataclasses import dataclass

@dataclass(frozen=True)
class Result:
    logits: torch.Tensor
    parts: tuple
    name: str = "kept"

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, *, numbers):
        out = self.inner(numbers)
        return Result(out, ({"a": out, "b": numbers},))

model, teacher = Model(), Model().requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(2, 4)
for step in range(6):
    aim = teacher(numbers=x).logits
    result = model(numbers=x)
    assert result.name == "kept"
    assert {result.logits.dtype, *(part.dtype for part in result.parts[0].values())} == {torch.float32}
    (result.logits - aim).square().mean().backward()
    optimizer.step()
    print("_compiled_call_impl" in vars(teacher), teacher(numbers=x).logits.equal(aim))
"""


def test_autocast_gives_back_float32_in_what_a_model_returns(jobs: TrialRunner, tmp_path: Path) -> None:
    ended = jobs.run(tmp_path, OUTPUTS, "autocast=bf16", last_step=4)
    assert _is_sound(ended), ended
    assert ended.levers == [(True, "Addmm in bfloat16")]
    assert set(ended.output.splitlines()) == {"False True"}


def test_autocast_leaves_a_script_alone_that_has_it(jobs: TrialRunner, tmp_path: Path) -> None:
    script = LOOP.replace("model(x) - y", "own(x) - y").replace(
        "for step", "def own(x):\n    with torch.autocast('cpu'):\n        return model(x)\n\nfor step"
    )
    ended = jobs.run(tmp_path, script, "autocast", last_step=3)
    assert _is_sound(ended), ended
    assert ended.levers == [(False, "the script uses autocast itself")]


def test_a_lever_that_fails_leaves_the_job_as_it_was(jobs: TrialRunner, untouched: list[str], tmp_path: Path) -> None:
    patched = LOOP.replace(
        "import torch\n",
        "import torch\nfrom redline.capture.worker.levers import optimizer_kernels\n"
        "optimizer_kernels._device_dtype_check_for_fused = lambda *_, **__: 1 / 0\n",
        1,
    )
    ended = jobs.run(tmp_path, patched, "fused", "threads=2", plan=PLAN)
    assert _is_sound(ended), ended
    assert ended.levers == [(False, "ZeroDivisionError: division by zero"), (True, "2 threads instead of 1")]
    assert ended.output.split() == untouched[: len(ended.output.split())]


def test_garbage_is_frozen(jobs: TrialRunner, tmp_path: Path) -> None:
    script = LOOP.replace("    print(", "    import gc\n    print(gc.get_freeze_count() > 0, ")
    ended = jobs.run(tmp_path, script, "gc-freeze", plan=PLAN)
    ((took, what),) = ended.levers
    assert took
    assert what.endswith("objects frozen")
    frozen = ended.output.split()[::2]  # printed when a step has ended, and the next may run another way
    assert frozen == [str(PLAN.is_changed(step + 1)) for step in range(1, len(frozen) + 1)]


def test_garbage_is_frozen_again_once_the_job_is_warm(jobs: TrialRunner, tmp_path: Path) -> None:
    kept = "kept = []\n\nfor step"
    script = LOOP.replace("for step", kept).replace(
        "    print(",
        "    import gc\n    kept.append([[step] for _ in range(20_000)])\n    print(gc.get_freeze_count(), ",
    )
    ended = jobs.run(tmp_path, script, "gc-freeze", last_step=6)
    assert _is_sound(ended), ended
    frozen = [int(count) for count in ended.output.split()[::2]]
    grown = [after > before + 20_000 for before, after in pairwise(frozen)]
    assert grown == [False, True, False, False, False][: len(grown)]


def test_inference_has_levers_too(jobs: TrialRunner, tmp_path: Path) -> None:
    script = MODEL + "\nwith torch.no_grad():\n    for step in range(40):\n        print(model(x).sum().item().hex())\n"
    ended = jobs.run(tmp_path, script, "autocast", last_step=12)
    assert _is_sound(ended), ended
    assert ended.levers == [(True, "outputs were in bfloat16")]


COMPILED = (
    MODEL
    + """
from torch._inductor import config
PREPARED
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for step in range(40):
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
"""
)


@pytest.mark.parametrize(
    ("prepared", "lever", "why"),
    [
        ("model = torch.compile(model, backend='eager')", "compile=root", "OptimizedModule is compiled by the script"),
        ("model.compile(backend='eager')", "compile=blocks", "Sequential is compiled by the script"),
        ("model[1][0].compile(backend='eager')", "compile", "parts of Sequential are compiled by the script"),
        pytest.param(
            "config.cpp.cxx = ('none',)",
            "compile",
            "it could not be compiled: InductorError: ",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_compile_leaves_a_job_alone_that_it_cannot_compile(
    jobs: TrialRunner, tmp_path: Path, prepared: str, lever: str, why: str
) -> None:
    plain = jobs.run(tmp_path, COMPILED.replace("PREPARED", prepared), last_step=LAST)
    ended = jobs.run(tmp_path, COMPILED.replace("PREPARED", prepared), lever, plan=PLAN)
    assert ended.exit_code == 0, ended
    ((took, what),) = ended.levers
    assert not took
    assert what.startswith(why)
    assert ended.output == plain.output


@pytest.mark.slow
def test_compile_tells_what_fell_back(jobs: TrialRunner, tmp_path: Path) -> None:
    prepared = "torch._dynamo.config.recompile_limit = 1\nmodel[1][1].up = torch.nn.Linear(16, 32, bias=False)"
    ended = jobs.run(tmp_path, COMPILED.replace("PREPARED", prepared), "compile", plan=PLAN)
    assert ended.exit_code == 0, ended
    assert ended.levers == [(True, "2 blocks (Block): 1 graph compiled, 1 functions fell back to eager")]


@pytest.mark.slow
def test_levers_on_one_model_go_together_in_any_order(jobs: TrialRunner, tmp_path: Path) -> None:
    script = COMPILED.replace("PREPARED", "")
    ended = jobs.run(tmp_path, script, "autocast", "channels-last", "checkpoint", "compile", last_step=4)
    assert _is_sound(ended), ended
    assert ended.levers == [
        (True, "Addmm in bfloat16"),
        (False, "no 4-d parameters in another layout"),
        (True, "2 blocks, in compiled graphs"),
        (True, "2 blocks (Block): 1 graph compiled"),
    ]
