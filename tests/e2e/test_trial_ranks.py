"""Levers in jobs of several ranks, under torchrun as users start it: all ranks switch at the same steps."""

from pathlib import Path

import pytest

from tests.support.trial_jobs import LAST, PLAN, TrialEnd, run_trial

JOB = """
import os, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
torch.manual_seed(0)

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(256, 512), torch.nn.Linear(512, 256)

    def forward(self, x, *, scale):
        return x + self.down(torch.relu(self.up(x))) * scale

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 256), torch.nn.Linear(256, 1)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x, scale=0.5)
        return {"logits": self.last(x)}

model = Net()
if os.environ["WRAP"] == "ddp":
    model = DistributedDataParallel(model)
else:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (2,))
    for part in (*model.blocks, model):
        fully_shard(part, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
x, y = torch.randn(8, 8), torch.randn(8, 1)
for step in range(40):
    loss = ((model(x=x)["logits"] - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
time.sleep(0.05)
dist.destroy_process_group()
"""


def _levers_of_both(ended: TrialEnd) -> list[list[object]]:
    assert ended.exit_code == 0, ended.errors
    assert ended.notes == []
    first, second = (facts["levers"] for facts in ended.facts)
    assert first == second
    return list(first)


@pytest.mark.slow  # CI has levers of DDP in test_ranks_of_ddp, and the moment in test_ranks_switch_together
@pytest.mark.parametrize("compiled", [False, True])
def test_levers_switch_in_a_job_with_ddp(tmp_path: Path, compiled: bool) -> None:
    expected = {
        "fused": [True, "AdamW: fused"],
        "threads=2": [True, "2 threads instead of 1"],
        "autocast": [True, "Addmm in bfloat16"],
        "compile=blocks": [True, "3 blocks (Block): 1 graph compiled"],
        "channels-last": [
            False,
            "refused: DDP has laid out the gradients of the model already; convert it before it is wrapped",
        ],
    }
    levers = {lever: told for lever, told in expected.items() if compiled or lever != "compile=blocks"}
    ended = run_trial(tmp_path, JOB, *levers, plan=PLAN, ranks=2, environment={"WRAP": "ddp"})
    assert ended.steps == [LAST] * 2
    assert _levers_of_both(ended) == list(levers.values())


@pytest.mark.slow  # CI has them in a patch: test_ranks_of_ddp
def test_arguments_of_ddp(tmp_path: Path) -> None:
    levers = ("bucket-mb=1", "bucket-view", "static-graph")
    ended = run_trial(tmp_path, JOB, *levers, last_step=4, ranks=2, environment={"WRAP": "ddp"})
    effects = _levers_of_both(ended)
    assert [took for took, _ in effects] == [True] * 3
    names = ("bucket_cap_mb=1", "gradient_as_bucket_view=True", "static_graph=True")
    for (_, what), name in zip(effects, names, strict=True):
        assert str(what).startswith(f"{name}; buckets of ")
        assert str(what).count(",") >= 2  # several buckets, where the default makes two


EXCHANGES = """
import time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 1))

def differ(tensor):
    parts = [torch.zeros_like(tensor) for _ in range(2)]
    dist.all_gather(parts, tensor.contiguous())
    return not parts[0].equal(parts[1])

def gradients():
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

def train(x):
    ((ddp(x) - 1) ** 2).mean().backward()
    return gradients()

ddp = DistributedDataParallel(model)
differing = []
model.register_forward_pre_hook(lambda *_: differing.append(differ(model[1].running_mean)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
torch.manual_seed(dist.get_rank())
for step in range(40):
    x = torch.randn(4, 8)
    with ddp.no_sync():
        exact = train(x)
    optimizer.zero_grad()
    dist.all_reduce(exact)
    sent = train(x)
    differs = differ(sent)
    if dist.get_rank() == 0:
        error = (sent - exact / 2).norm() / exact.norm()
        print(differing[-2], differs, sent.bfloat16().float().equal(sent), error.item())
    optimizer.step()
    optimizer.zero_grad()
time.sleep(0.05)
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_gradients_are_sent_in_bf16(tmp_path: Path) -> None:
    ended = run_trial(tmp_path, EXCHANGES, "bf16-hook", last_step=5, ranks=2)
    assert _levers_of_both(ended) == [[True, "buckets are sent in bfloat16"]]
    lines = [line.split() for line in ended.output.splitlines()]
    assert {tuple(line[1:3]) for line in lines} == {("False", "True")}  # alike on both ranks, and rounded
    assert all(1e-5 < float(line[3]) < 2**-7 for line in lines)


@pytest.mark.slow
def test_buffers_are_those_of_each_rank_while_it_is_on(tmp_path: Path) -> None:
    ended = run_trial(tmp_path, EXCHANGES, "no-broadcast-buffers", plan=PLAN, ranks=2)
    assert _levers_of_both(ended) == [[True, "3 buffers are not broadcast"]]
    lines = [line.split() for line in ended.output.splitlines()]
    assert [line[0] for line in lines] == [str(PLAN.is_changed(step)) for step in range(1, len(lines) + 1)]
    assert {line[2] for line in lines} == {"False"}  # gradients are sent as ever


@pytest.mark.slow
def test_levers_switch_in_a_job_with_fsdp2(tmp_path: Path) -> None:
    levers = ("fused", "threads=2", "autocast", "compile=blocks", "channels-last", "fsdp-keep", "fsdp-prefetch=2")
    ended = run_trial(tmp_path, JOB, *levers, plan=PLAN, ranks=2, environment={"WRAP": "fsdp"})
    assert ended.steps == [LAST] * 2
    assert _levers_of_both(ended) == [
        [True, "AdamW: fused"],
        [True, "2 threads instead of 1"],
        [True, "Addmm in bfloat16"],
        [True, "3 blocks (FSDPBlock): 1 graph compiled"],
        [False, "refused: the parameters are sharded; convert the model before it is sharded"],
        [True, "3 units stay gathered until the backward pass"],
        [True, "3 units are gathered up to 2 ahead"],
    ]
