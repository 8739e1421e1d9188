"""Facts of the job: what the script's own objects say, read without touching them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from redline.capture.worker import job_facts  # noqa: E402
from redline.capture.worker.counting import calls  # noqa: E402
from redline.capture.worker.job_facts import JobFactsCollector  # noqa: E402


@pytest.fixture
def collector() -> JobFactsCollector:
    one = JobFactsCollector(lambda: None)
    one.window_opened()
    return one


class Branches(nn.Module):
    def __init__(self, *, uses_both: bool) -> None:
        super().__init__()
        self.first, self.second, self.uses_both = nn.Linear(4, 4), nn.Linear(4, 4), uses_both

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x)) if self.uses_both else self.first(x)  # type: ignore[no-any-return]


def test_an_optimizer_says_how_it_was_made_and_which_parameters_have_no_gradient(collector: JobFactsCollector) -> None:
    net = Branches(uses_both=False)
    net.first.bias.requires_grad_(False)
    groups = [{"params": [*net.first.parameters()]}, {"params": [*net.second.parameters()]}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, foreach=False)
    net(torch.ones(1, 4)).sum().backward()
    collector.optimizer_stepped(optimizer)
    optimizer.zero_grad()
    collector.optimizer_stepped(optimizer)  # looked at once
    assert collector.part()["optimizers"] == [
        {
            "kind": "AdamW",
            "fused": None,
            "foreach": False,
            "capturable": False,
            "parameters": 4,
            "elements": 40,
            "groups": 2,
            "frozen": 1,
            "without_gradient": 3,
            "device": "cpu",
        }
    ]


def test_loaders_of_all_epochs_are_one_fact(collector: JobFactsCollector) -> None:
    loader = DataLoader(TensorDataset(torch.ones(4, 2)), batch_size=2)
    epochs = [iter(loader), iter(loader)]
    for epoch in epochs:
        collector.loader_asked(epoch)
    assert collector.part()["loaders"] == [
        {
            "workers": 0,
            "pin_memory": False,
            "prefetch": None,
            "persistent": False,
            "batch_size": 2,
            "dataset": "TensorDataset",
        }
    ]


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_modes_are_those_of_the_call(collector: JobFactsCollector) -> None:
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), torch.autograd.detect_anomaly(check_nan=False):
        collector.called(nn.Linear(2, 2).eval())
    collector.called(nn.Linear(2, 2))
    assert collector.part()["modes"] == {
        "training": False,
        "grad_enabled": False,
        "inference_mode": False,
        "autocast": "bfloat16",
        "anomaly": True,
        "deterministic": False,
        "default_dtype": "float32",
    }


@pytest.fixture
def process_group() -> Iterator[None]:
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize(("uses_both", "unused_bytes"), [(True, 0), (False, 80)])
def test_ddp_says_how_it_was_made_and_what_it_found_unused(uses_both: bool, unused_bytes: int) -> None:
    net = nn.parallel.DistributedDataParallel(Branches(uses_both=uses_both), find_unused_parameters=True)
    for _ in range(2):
        net(torch.ones(1, 4)).sum().backward()
    holder = nn.Sequential(net)  # as a compiled model or a framework's wrapper does
    (facts,) = job_facts.ddp_facts(holder)
    assert facts == {
        "find_unused_parameters": True,
        "static_graph": False,
        "bucket_bytes": 25 * 1024 * 1024,
        "broadcast_buffers": True,
        "gradient_as_bucket_view": False,
        "parameters": 4,
        "unused_bytes": unused_bytes,
    }
    assert job_facts.ddp_facts(nn.Linear(2, 2)) == []


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("reshards", [True, False])
def test_units_of_fsdp_are_counted(reshards: bool) -> None:
    from torch.distributed.fsdp import fully_shard

    net = nn.Sequential(*[nn.Linear(2, 2) for _ in range(3)])
    for layer in net:
        fully_shard(layer, reshard_after_forward=reshards)
    fully_shard(net)
    assert job_facts.fsdp_facts(net) == [{"units": 4, "reshard_after_forward": reshards}]


def test_reasons_of_dynamo_are_counted_without_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    explained = "Failed to trace builtin\n  Explanation: Dynamo does not know `print`\n  Hint: avoid it"
    counters = {
        "frames": {"total": 3},
        "stats": {"unique_graphs": 5},
        "graph_break": {explained: 2, "Data-dependent jump": 1},
        "resumes": {"torch_dynamo_resume_in_forward_at_41": 2},
    }
    metrics = [
        SimpleNamespace(co_name="forward", co_filename="net.py", recompile_reason=None),
        SimpleNamespace(
            co_name="forward", co_filename="net.py", recompile_reason="0/0: k == 1   # a line\nUser stack:"
        ),
        SimpleNamespace(co_name="forward", co_filename="net.py", recompile_reason="0/1: k == 2"),
        SimpleNamespace(co_name="__get__", co_filename=calls.__file__, recompile_reason="ours"),
    ]
    known = SimpleNamespace(counters=counters, _compilation_metrics=metrics)
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", known)
    assert job_facts.compile_facts() == {
        "graphs": 5,
        "breaks": [["Dynamo does not know `print`", 2], ["Data-dependent jump", 1]],
        "places": [["forward:41", 2]],
        "recompiles": [["forward: k == 1", 2]],
    }


def test_a_job_that_compiles_nothing_has_no_facts_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    assert job_facts.compile_facts() is None


@pytest.mark.parametrize(("value", "caching"), [("1", False), ("", True)])
def test_the_caching_allocator_may_be_off(monkeypatch: pytest.MonkeyPatch, value: str, caching: bool) -> None:
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", value)
    assert job_facts.allocator_facts() == {"caching": caching}


def test_nothing_of_the_script_makes_it_fail() -> None:
    class Hostile(nn.Module):
        @property
        def training(self) -> bool:
            raise ValueError

        @training.setter
        def training(self, value: bool) -> None:
            pass

        def modules(self) -> None:  # type: ignore[override]
            raise ValueError

    collector = JobFactsCollector(Hostile)
    collector.window_opened()
    broken = SimpleNamespace(param_groups=[{}])
    collector.optimizer_stepped(broken)  # type: ignore[arg-type]
    collector.loader_asked(3)
    collector.called(Hostile())
    facts = collector.part()
    assert facts["optimizers"] == facts["loaders"] == []
    assert "modes" not in facts


def test_nothing_is_imported() -> None:
    code = (
        "import sys, torch; from redline.capture.worker.job_facts import JobFactsCollector as C;"
        "old = set(sys.modules); net = torch.nn.Linear(2, 2); c = C(lambda: net);"
        "c.window_opened(); c.called(net); c.part();"
        "print(sorted(set(sys.modules) - old))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "[]"
