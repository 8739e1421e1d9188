"""Levers on FSDP2, in a group of one: when units are gathered, that no bit changes, and what is left alone."""

from pathlib import Path

import pytest

from tests.support.trial_jobs import PLAN, TrialRunner

SCRIPT = """
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup
torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4)))
PREPARED
gathered = []
plain = FSDPParamGroup.unshard

def unshard(group, *args):
    if not group.is_unsharded and group._all_gather_result is None:
        gathered.append(group._module_fqn or "-")
    return plain(group, *args)

FSDPParamGroup.unshard = unshard
waited = FSDPParamGroup.wait_for_unshard
FSDPParamGroup.wait_for_unshard = lambda group: (gathered.append("|"), waited(group))[1]
for part in model:
    part.register_forward_pre_hook(lambda *_: gathered.append("*"))  # after FSDP's own
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = torch.randn(4, 8)
for step in range(40):
    gathered.clear()
    loss = model(x).square().mean()
    forward = "".join(gathered)
    gathered.clear()
    loss.backward()
    print(forward, "".join(gathered), loss.item().hex())
    optimizer.step()
    optimizer.zero_grad()
"""
SHARDED = "for part in (*model[:3], model): fully_shard(part, mesh=mesh)"  # the root has the last layer
KEPT = "for part in (*model[:3], model): fully_shard(part, mesh=mesh, reshard_after_forward=False)"
OWN = f"{SHARDED}\nmodel[0].set_modules_to_forward_prefetch([model[1]])"
ONE = "fully_shard(model[0], mesh=mesh); fully_shard(model, mesh=mesh)"


def _lines(jobs: TrialRunner, folder: Path, lever: str) -> list[list[str]]:
    script = SCRIPT.replace("PREPARED", SHARDED)
    ended = jobs.run(folder, script, lever, plan=PLAN)
    assert (ended.exit_code, ended.notes) == (0, []), ended
    ((took, what),) = ended.levers
    assert took, what
    lines = [line.split() for line in ended.output.splitlines()]
    plain = [line.split() for line in jobs.run(folder, script, last_step=len(lines)).output.splitlines()]
    assert [line[-1] for line in lines[: len(plain)]] == [line[-1] for line in plain]
    for step, (line, untouched) in enumerate(zip(lines, plain, strict=False), 1):
        assert (line == untouched) == (not PLAN.is_changed(step)), step
    return [line for step, line in enumerate(lines, 1) if PLAN.is_changed(step)]


def test_parameters_stay_until_the_backward_pass(jobs: TrialRunner, tmp_path: Path) -> None:
    for forward, *backward, _loss in _lines(jobs, tmp_path, "fsdp-keep"):
        assert [forward.count(unit) for unit in "012"] == [1, 1, 1]
        assert set("".join(backward)) <= {"|"}  # nothing is gathered again


@pytest.mark.parametrize("ahead", [1, 2])
def test_units_are_units_ahead(jobs: TrialRunner, tmp_path: Path, ahead: int) -> None:
    lines = _lines(jobs, tmp_path, f"fsdp-prefetch={ahead}")
    forward, backward = {1: ("-|0|1*|2*|**", "|2|1|0|"), 2: ("-|01|2*|*|**", "|21|0||")}[ahead]
    assert {line[0] for line in lines} == {forward}
    assert {line[1] for line in lines} == {backward}


@pytest.mark.parametrize(
    ("lever", "prepared", "why"),
    [
        ("fsdp-keep", "", "no model is sharded by fully_shard"),
        ("fsdp-keep", KEPT, "no parameters are sharded again before the backward pass"),
        ("fsdp-prefetch=2", "", "no model is sharded by fully_shard"),
        ("fsdp-prefetch=2", OWN, "the script says itself what is gathered ahead"),
        ("fsdp-prefetch=2", ONE, "there is one unit only to gather ahead"),
    ],
)
def test_what_changes_nothing_says_so(jobs: TrialRunner, tmp_path: Path, lever: str, prepared: str, why: str) -> None:
    ended = jobs.run(tmp_path, SCRIPT.replace("PREPARED", prepared), lever, last_step=4)
    assert ended.exit_code == 0, ended
    assert ended.levers == [(False, why)]


def test_both_go_together_for_a_whole_process(jobs: TrialRunner, tmp_path: Path) -> None:
    ended = jobs.run(tmp_path, SCRIPT.replace("PREPARED", SHARDED), "fsdp-keep", "fsdp-prefetch=2", last_step=4)
    assert ended.levers == [
        (True, "3 units stay gathered until the backward pass"),
        (True, "3 units are gathered up to 2 ahead"),
    ]
