"""Software stacks by name: what each adds to a machine's own rates, as constants fitted to measured runs."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files

import numpy as np

from redline.errors import UsageError
from redline.hardware.catalogue import find, machines, record
from redline.hardware.machine import BEST_MATMUL, LATENCY, PEAK, RATE, Machine
from redline.model.model import Number
from redline.plan.train.kernels import attention_law, half_format, kernel_law, kin


@dataclass(frozen=True, kw_only=True)
class SoftwareConstants:
    """What a software stack needs on every machine, in its own constants and in the rates that follow from them."""

    # Links.
    node_latency_s: Number = 20e-6
    """Of one collective inside the node."""
    expert_dispatch: Number = 0.0
    """1: a token crosses the network once for each node that it is sent to, and is passed on inside (as DeepEP does);
    0: once for each expert."""
    nic_sharing: Number = 1.0
    """How the members of a group in one node add up: members ** sharing network cards."""
    across_latency_s: Number = 20e-6
    """Of each node that a ring passes, or of each level of a tree."""
    across_decay: Number = 0.0
    """How bandwidth falls with the number of nodes: nodes ** -decay."""
    gather_share: Number = 1.0
    """Of the bandwidth of all-reduces across nodes, what gathering and scattering reach: they have no tree."""

    # The software stack: what its kernels move besides matmuls and fused attention.
    hidden_passes: Number = 14.0
    """How often the forward pass of a layer reads or writes the residual stream: norms, sums, rotation, casts."""
    ffn_passes: Number = 3.0
    """The same for the width of the feed-forward part: its activation."""
    score_passes: Number = 6.0
    """The same for the scores of attention that is not fused: scaling, mask, softmax, dropout."""
    logit_passes: Number = 10.0
    """How often 2 bytes per logit are moved in the loss and its gradient."""
    accumulate_bytes: Number = 8.0
    """Per parameter and micro-batch: adding gradients up."""
    gradient_bytes: Number = 2.0
    """Per parameter, in the reduction over copies."""
    optimizer_bytes: Number = 30.0
    """Per parameter, moved by the optimizer."""
    selective_share: Number = 0.0
    """Of a layer's matmuls and passes, what selective recomputation repeats besides attention."""
    expert_efficiency: Number = 0.8
    """Of grouped matmuls against plain ones of the same size."""
    expert_passes: Number = 4.0
    """How often a row that goes to an expert is read or written besides: sorting, casting, adding up."""

    # What the host needs. A layer never takes less than its launches.
    host_layer_s: Number = 0.6e-3
    """For the forward pass of one layer."""
    host_backward: Number = 1.2
    """For its backward pass, as a multiple."""
    host_collective_s: Number = 0.05e-3
    """For each collective inside a layer, beyond the kernels."""
    host_across_s: Number = 0.0
    """More for each of them, for each doubling of the nodes that it spans."""
    host_expert_s: Number = 1e-4
    """For the forward pass of the routing of one layer, beyond its kernels."""
    host_busy_s: Number = 0.0
    """More for each of them, and for each member of its group, while stages in other nodes exchange activations."""
    host_micro_batch_s: Number = 1e-3
    """For each micro-batch, whatever its layers: nothing hides it."""
    host_send_s: Number = 0.1e-3
    """For each send between stages: nothing hides it."""
    host_step_s: Number = 10e-3
    """Once per step: data, logging, gradient norm."""
    host_optimizer_s: Number = 0.0
    """Of the optimizer, per layer."""

    # What a cluster loses once a job is large. Nothing by default: these are faults of one cluster.
    stall_nodes: Number = 64.0
    """From this many nodes on."""
    stall_send_s: Number = 0.0
    """Of each send between stages."""
    stall_micro_batch_s: Number = 0.0
    """Of each micro-batch where there is but one stage: nothing hides it."""
    stall_reduce: Number = 1.0
    """How many times as long all-reducing the gradients takes."""

    # What hides behind compute.
    overlap: Number = 0.8
    """Share of data-parallel traffic that may hide behind compute."""
    update_overlap: Number = 0.0
    """Share of gathering updated weights that hides behind the next forward pass."""
    tensor_overlap: Number = 0.0
    """Share of tensor-parallel traffic that hides behind matmuls."""
    expert_overlap: Number = 0.1
    """Share of the traffic of expert parallelism that hides behind compute."""
    balanced_head: Number = 0.0
    """1 where layers are dealt to stages by cost, with the head as several of them; 0: the same number to each."""


@dataclass(frozen=True, kw_only=True)
class Rates(SoftwareConstants):
    """Numbers, or columns of numbers: one row per layout."""

    # Kernels: max(flops / compute, bytes / memory) + fixed.
    compute_flops_per_s: Number
    """What matmuls sustain: peak, times their efficiency, times what clocks sustain."""
    head_flops_per_s: Number
    """The same for the logits, which stay in 16 bits when layers compute in 8 or 4."""
    memory_bytes_per_s: Number
    fixed_s: Number
    attention_flops_per_s: Number
    """What fused attention sustains on long sequences."""
    attention_half: Number
    """Sequence length at which fused attention reaches half of that."""
    peak_flops_per_s: Number
    """Of the matmul's number format: what MFU refers to, and what nothing may exceed."""
    half_peak_flops_per_s: Number
    """Of 16 bits, in which logits and attention stay."""
    matmul_bytes: Number
    """Per number that matmuls read: 4 for fp32 and tf32, 2, or 1 for fp8, 0.5 for fp4."""

    # Links.
    devices_per_node: Number
    node_bytes_per_s: Number
    """Bus bandwidth of collectives among all devices of the node (scale-up domain)."""
    pair_bytes_per_s: Number
    """Between two devices of a node. Less than `node_bytes_per_s` where there is no switch."""
    linked_devices: Number = np.inf
    """Of a node, how many have such links to each other. Groups of more go through the host's PCIe."""
    server_bytes_per_s: Number = np.inf
    """Bus bandwidth of collectives through that."""
    nic_bytes_per_s: Number
    """Per device, in one direction."""
    host_link_bytes_per_s: Number = 25e9
    host_memory_bytes_per_s: Number = 200e9
    """Of one host, for all its devices. A usual server of two sockets sustains about this."""

    # Memory.
    device_bytes: Number

    @property
    def number_bytes(self) -> Number:
        """Per activation, and per weight that is sent: no less than 16 bits, whatever matmuls read."""
        return np.maximum(2.0, self.matmul_bytes)


# --- layouts that a stack can run -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class StackAbilities:
    """Everything, where nothing is said."""

    only: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Of fields of Layout: the values that exist."""
    zero_in_pipeline: tuple[int, ...] | None = None
    """Stages of ZeRO that go with pipeline parallelism."""

    def has(self, name: str, value: float) -> bool:
        return name not in self.only or value in self.only[name]


@cache
def abilities(stack: str) -> StackAbilities:
    """Abilities of a stack by name; of one that is not known, everything."""
    written = dict(_abilities_file().get(stack, {}))
    written.pop("source", None)
    in_pipeline = written.pop("zero_in_pipeline", None)
    only = {name: tuple(values) for name, values in written.items()}
    return StackAbilities(only=only, zero_in_pipeline=None if in_pipeline is None else tuple(in_pipeline))


@cache
def _abilities_file() -> dict[str, dict[str, list[int]]]:
    text = (files("redline.plan.train") / "stack_abilities.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


DEFAULT_STACK = "default"
# As they are written: those of all runs, of a number format, and of a machine in that format.
StackConstants = Mapping[str, Mapping[str, float]]
MATMUL_BYTES: Mapping[str, float] = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "fp4": 0.5}
# Of the published bandwidth of a fabric, what collectives of all its devices sustain: 445 of 450 GB/s on H100 with its
# switch that adds up, 222 of 300 on A100 without.
FABRIC_SHARE = 0.75
USUAL_NIC_BYTES_PER_S = 25e9
# A usual server has so many devices. Where fewer of them are linked to each other than this, the others go through its
# PCIe, of which collectives of all sustain this share: 28 of 64 GB/s on eight RTX 5090 (NVIDIA/nccl issue 1639).
USUAL_SERVER, FEWEST_LINKED, SERVER_SHARE = 8, 4, 0.44
# Whatever was fitted elsewhere, matmuls of no machine reach more than this of its peak.
MOST_OF_PEAK = 0.95
USUAL_FABRIC_BYTES_PER_S = 32e9


@dataclass(frozen=True, kw_only=True)
class SoftwareStack(SoftwareConstants):
    """Constants of one software stack. Each is a share of what the machine can do, or a time of the host."""

    # Shares of the machine's own laws.
    sustained: Number = 0.90
    """Of what kernel tables promise for matmuls: clocks under load."""
    attention: Number = 1.0
    """Of what they promise for fused attention."""
    attention_half: Number = 1.0
    """Times the length of a sequence at which fused attention reaches half of that."""
    moved: Number = 0.90
    """Of the memory bandwidth that they promise."""
    node_share: Number = 1.0
    nic_share: Number = 0.80


# What follows from constants of a machine's kin, and is no less than that of a machine that is no better.
_RAISED = ("compute_flops_per_s", "head_flops_per_s", "attention_flops_per_s", "memory_bytes_per_s")


def stack_names() -> tuple[str, ...]:
    return tuple(_file())


def stack(name: str, machine: str = "", dtype: str = "bf16") -> SoftwareStack:
    """The constants of a stack: those of all its runs, then of a number format, then of the machine's kin in that
    format: its generation, then its architecture.
    """
    return from_constants(stack_constants(name), machine, dtype)


def from_constants(written: StackConstants, machine: str, dtype: str) -> SoftwareStack:
    """The same of constants that need not be the package's own."""
    kind = format_kind(dtype)
    constants = {**written["all"], **written.get(kind, {})}
    known = record(machine)
    for near in reversed(kin(known) if known else ()):
        constants.update(written.get(f"{near}/{kind}", {}))
    return replace(SoftwareStack(), **constants)


def format_kind(dtype: str) -> str:
    """Formats of 16 bits are alike."""
    return dtype if dtype in {"fp8", "fp4"} else "half"


def stack_constants(name: str) -> dict[str, dict[str, float]]:
    if name not in _file():
        raise UsageError(f"there is no software stack {name!r}\nthere are: {', '.join(stack_names())}")
    return _file()[name]


@cache
def _file() -> dict[str, dict[str, dict[str, float]]]:
    text = (files("redline.plan.train") / "stacks.json").read_text(encoding="utf-8")
    stacks: dict[str, dict[str, dict[str, float]]] = json.loads(text)["stacks"]
    return stacks


def rates_of(
    machine: Machine,
    dtype: str = "bf16",
    stack_name: str = DEFAULT_STACK,
    *,
    devices_per_node: int = 0,
    nic_bytes_per_s: float = 0.0,
    software: SoftwareStack | None = None,
) -> Rates:
    """What a machine does in a number format under a stack. Measured latencies come before those of the stack.

    `software` are constants that were fitted to a step on this machine: they come before both.
    """
    bare = machine_rates(machine, dtype, devices_per_node=devices_per_node, nic_bytes_per_s=nic_bytes_per_s)
    if software is not None:
        return with_stack(bare, software)
    rates = with_stack(bare, stack(stack_name, machine.base or machine.name, dtype))
    published = record(machine.base or machine.name)
    if published is not None and machine.figures == published.figures:  # a profile without usable figures is its record
        rates = replace(rates, **_no_less(published.name, dtype, stack_name))
    return replace(
        rates,
        node_latency_s=_latency_s(machine, "node", rates.node_latency_s),
        across_latency_s=_latency_s(machine, "across", rates.across_latency_s),
    )


@cache
def _no_less(name: str, dtype: str, stack_name: str) -> dict[str, float]:
    """What a machine of the catalogue does at least: as much as every other that is better in no figure.

    Constants of kin that nobody measured are means of others, so two machines may get shares that put the better one
    behind.
    """
    machine = find(name)
    others = [each for each in machines() if f"{PEAK}.{dtype}" in each.figures and each.memory_bytes_per_s]
    no_better = [each for each in others if _no_worse(machine, each, dtype)]
    used = [
        with_stack(machine_rates(each, dtype), stack(stack_name, each.name, dtype)) for each in (machine, *no_better)
    ]
    return {field: max(float(getattr(rates, field)) for rates in used) for field in _RAISED}


def _no_worse(machine: Machine, other: Machine, dtype: str) -> bool:
    """In any figure that a step depends on; a best matmul that nobody measured is not a worse one."""
    own, against = (_compared(each, dtype) for each in (machine, other))
    best, against_best = (each.value(f"{BEST_MATMUL}.{dtype}") for each in (machine, other))
    return all(a >= b for a, b in zip(own, against, strict=True)) and not 0 < best < against_best


@cache
def _compared(machine: Machine, dtype: str) -> tuple[float, ...]:
    bare = machine_rates(machine, dtype)
    links = (bare.node_bytes_per_s, bare.pair_bytes_per_s, bare.nic_bytes_per_s, bare.host_link_bytes_per_s)
    rest = (bare.devices_per_node, bare.linked_devices, bare.server_bytes_per_s)
    peaks = (bare.peak_flops_per_s, bare.half_peak_flops_per_s, machine.value("memory_bytes_per_s"))
    return tuple(float(each) for each in (*peaks, *links, *rest))


def with_stack(bare: Rates, used: SoftwareStack) -> Rates:
    """Rates of a machine, brought down to what a stack reaches of them. Both may have columns."""
    copied = {field.name: getattr(used, field.name) for field in fields(SoftwareConstants)}
    copied["gradient_bytes"] = np.maximum(used.gradient_bytes, bare.number_bytes)
    most = MOST_OF_PEAK * bare.peak_flops_per_s
    most_in_half = MOST_OF_PEAK * np.minimum(bare.peak_flops_per_s, bare.half_peak_flops_per_s)
    return replace(
        bare,
        **copied,
        compute_flops_per_s=np.minimum(bare.compute_flops_per_s * used.sustained, most),
        head_flops_per_s=np.minimum(bare.head_flops_per_s * used.sustained, most_in_half),
        attention_flops_per_s=np.minimum(bare.attention_flops_per_s * used.attention, most_in_half),
        attention_half=bare.attention_half * used.attention_half,
        memory_bytes_per_s=bare.memory_bytes_per_s * used.moved,
        node_bytes_per_s=bare.node_bytes_per_s * used.node_share,
        server_bytes_per_s=bare.server_bytes_per_s * np.minimum(used.node_share, 1.0),
        pair_bytes_per_s=bare.pair_bytes_per_s * used.node_share,
        nic_bytes_per_s=bare.nic_bytes_per_s * used.nic_share,
    )


def machine_rates(machine: Machine, dtype: str, *, devices_per_node: int = 0, nic_bytes_per_s: float = 0.0) -> Rates:
    """The machine with the best of software. Figures of its profile come before usual ones."""
    # What stays in 16 bits when layers compute in 8 or 4 stays in 32 bits when they do, which a CPU may be faster in.
    wide = dtype if dtype in ("fp32", "tf32") else half_format(machine)
    law, usual, attention = (
        kernel_law(machine, dtype),
        kernel_law(machine, wide),
        attention_law(machine, wide),
    )
    linked = _linked_devices(machine)
    per_node = devices_per_node or max(linked, USUAL_SERVER)
    node, pair = _fabric(machine, per_node)
    published_nic = machine.value("nic_bytes_per_s", USUAL_NIC_BYTES_PER_S)
    return Rates(
        compute_flops_per_s=law.compute_flops_per_s,
        head_flops_per_s=min(law.compute_flops_per_s, usual.compute_flops_per_s),
        memory_bytes_per_s=law.memory_bytes_per_s,
        fixed_s=law.fixed_s,
        attention_flops_per_s=attention.most_flops_per_s * min(1.0, law.peak_flops_per_s / usual.peak_flops_per_s),
        attention_half=attention.half,
        peak_flops_per_s=law.peak_flops_per_s,
        half_peak_flops_per_s=usual.peak_flops_per_s,
        matmul_bytes=MATMUL_BYTES[dtype],
        devices_per_node=per_node,
        node_bytes_per_s=node,
        pair_bytes_per_s=pair,
        linked_devices=linked if linked < FEWEST_LINKED else np.inf,
        server_bytes_per_s=_server_bytes_per_s(machine, node) if linked < FEWEST_LINKED else np.inf,
        node_latency_s=0.0,
        nic_bytes_per_s=nic_bytes_per_s or machine.value(f"{RATE}.across.send_recv", published_nic),
        across_latency_s=0.0,
        host_link_bytes_per_s=machine.value("pcie_bytes_per_s", 32e9) * 0.8,
        device_bytes=machine.value("memory_bytes", 0.0),
    )


def _fabric(machine: Machine, per_node: float) -> tuple[float, float]:
    """Bandwidth of collectives inside a node: of all devices, and of two. Measured, or a share of the published.

    A gather of everything takes size / rate as measured; of its size, (N - 1) / N went over a link.
    """
    fabric = machine.value("fabric_bytes_per_s", USUAL_FABRIC_BYTES_PER_S)
    pair = machine.value("pair_bytes_per_s", fabric) * FABRIC_SHARE
    linked = max(per_node - 1, 1) / max(per_node, 2)
    gathered = machine.figures.get(f"{RATE}.node.all_gather")
    node = fabric * FABRIC_SHARE if gathered is None else gathered.value * linked
    return node, machine.value(f"{RATE}.node.send_recv", pair)


def _linked_devices(machine: Machine) -> float:
    """How many have direct links to each other. Where nobody says, links that are faster than PCIe join a server."""
    fabric = machine.value("fabric_bytes_per_s")
    usual = USUAL_SERVER if fabric > machine.value("pcie_bytes_per_s", USUAL_FABRIC_BYTES_PER_S) else 1
    return machine.value("fabric_devices", usual)


def _server_bytes_per_s(machine: Machine, node_bytes_per_s: float) -> float:
    """Measured on all devices of the node, or a share of PCIe."""
    if f"{RATE}.node.all_gather" in machine.figures:
        return node_bytes_per_s
    return SERVER_SHARE * machine.value("pcie_bytes_per_s", USUAL_FABRIC_BYTES_PER_S)


def _latency_s(machine: Machine, level: str, usual_s: Number) -> Number:
    measured = machine.figures.get(f"{LATENCY}.{level}.all_gather")
    return usual_s if measured is None else measured.value / 1e9
