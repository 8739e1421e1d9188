"""A machine that is no worse in any figure is never slower: every pair of the catalogue that can be compared."""

from collections.abc import Iterator
from itertools import permutations

import numpy as np
import pytest

from redline.hardware.catalogue import find, machines
from redline.hardware.machine import PEAK, Machine
from redline.model.huggingface import known_model
from redline.plan.train.kernels import half_format, kin, of_kin, pooled
from redline.plan.train.layout import Batch, Layout
from redline.plan.train.stacks import machine_rates, rates_of
from redline.plan.train.time.step import step_time
from redline.plan.train.time.step_costs import step_costs

MODELS = ("llama-3.1-8b", "llama-3.1-405b", "mixtral-8x22b", "deepseek-v3")
STACKS = ("default", "megatron-core", "megatron-bridge", "composer", "nanotron")
BATCH = Batch(sequence=4096, sequences=1024)
LAYOUTS = Layout(
    dp=np.array([64.0, 64, 8, 16, 64, 64, 4]),
    tp=np.array([1.0, 1, 8, 4, 1, 2, 8]),
    pp=np.array([1.0, 1, 1, 4, 8, 8, 16]),
    ep=np.array([1.0, 8, 8, 8, 64, 64, 1]),
    expert_tp=1.0,
    zero=np.array([3.0, 1, 1, 1, 1, 1, 0]),
    sequence_parallel=np.array([0.0, 0, 1, 1, 0, 1, 1]),
    recompute=np.array([0.0, 0, 2, 1, 2, 0, 0]),
    schedule=np.array([1.0, 1, 1, 1, 2, 1, 1]),
)


def figures(machine: Machine, dtype: str) -> tuple[float, ...]:
    """All that a step could depend on, with what is assumed where nobody published it."""
    bare = machine_rates(machine, dtype)
    published = [machine.value(f"{PEAK}.{name}") for name in (dtype, half_format(machine))]
    links = (bare.node_bytes_per_s, bare.pair_bytes_per_s, bare.nic_bytes_per_s, bare.host_link_bytes_per_s)
    best = machine.value(f"best_matmul_flops_per_s.{dtype}")
    rest = (machine.value("memory_bytes_per_s"), bare.devices_per_node, bare.linked_devices, bare.server_bytes_per_s)
    return (*published, *(float(each) for each in (*links, *rest)), best)


def comparable(dtype: str) -> Iterator[tuple[Machine, Machine]]:
    """Pairs of which the second is no worse in any figure."""
    able = [machine for machine in machines() if machine.value(f"{PEAK}.{dtype}") and machine.memory_bytes_per_s]
    for one, other in permutations(able, 2):
        # A best matmul that nobody measured is not a worse one.
        before, after = figures(one, dtype), figures(other, dtype)
        known = after if before[-1] and after[-1] else (*after[:-1], before[-1])
        if all(b >= a for a, b in zip(before, known, strict=True)):
            yield one, other


PAIRS = {dtype: list(comparable(dtype)) for dtype in ("bf16", "fp8")}


def test_the_catalogue_has_pairs_to_compare() -> None:
    names = {(one.name, other.name) for one, other in PAIRS["bf16"]}
    assert len(names) > 100
    assert {("H800-SXM", "H100-SXM5-80GB"), ("H100-SXM5-80GB", "H200-SXM"), ("B200-SXM", "GB200")} <= names


@pytest.mark.parametrize("dtype", PAIRS)
@pytest.mark.parametrize("name", MODELS)
def test_no_worse_is_never_slower_at_a_fixed_layout(name: str, dtype: str) -> None:
    model = known_model(name)
    involved = {machine.name: machine for pair in PAIRS[dtype] for machine in pair}
    for stack in STACKS:
        taken = {
            each: step_time(step_costs(model, BATCH, LAYOUTS, rates_of(machine, dtype, stack))).step_s
            for each, machine in involved.items()
        }
        slower = {
            (stack, one.name, other.name): float(np.max(taken[other.name] / taken[one.name]))
            for one, other in PAIRS[dtype]
        }
        worst = max(slower, key=lambda pair: slower[pair])
        assert slower[worst] <= 1 + 1e-9, (worst, slower[worst])


def test_a_machine_with_more_memory_bandwidth_alone_is_hardly_faster_on_matmuls() -> None:
    """H100 and H200 are the same die."""
    one, other = (rates_of(find(name)) for name in ("H100-SXM5-80GB", "H200-SXM"))
    assert one.compute_flops_per_s == other.compute_flops_per_s
    assert one.attention_flops_per_s == other.attention_flops_per_s
    assert other.memory_bytes_per_s == pytest.approx(float(one.memory_bytes_per_s) * 4.8 / 3.35)


def test_machines_without_measurements_borrow_from_the_nearest_that_has_some() -> None:
    known = pooled([("Hopper sm90", (1.0,)), ("Hopper sm90", (3.0,)), ("Blackwell sm100", (5.0,))])
    assert of_kin(known, find("H20")) == (2.0,)
    assert of_kin(known, find("B300-SXM")) == (5.0,)  # of its generation
    assert of_kin(known, find("MI300X")) is None
    assert kin(find("B300-SXM")) == ("Blackwell Ultra sm103", "Blackwell")
