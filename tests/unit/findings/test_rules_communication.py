"""Rules about communication: each fires on its trace with the exact time it claims, and not on its counter-trace."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from redline.analysis.job.combine import combine
from redline.analysis.job.outline import outline_of
from redline.analysis.rank.digest_file import decoded, encoded
from redline.findings.aggregate import findings_of
from redline.findings.finding import Finding
from redline.findings.rule import MatchTotals
from redline.findings.rules.communication import late_ranks
from redline.hardware.machine import Machine
from redline.testing.synthetic import JobSpec, Layout, Straggler, write_job
from redline.trace.job import JobOptions
from redline.verbs.diagnose import diagnose
from tests.conftest import Event, collective, document, figure, kernel, launch, op, region
from tests.unit.findings.conftest import claimed_ns, copied, diagnosis, digest, found, launched, matched, step

BACKWARD_THREAD = 2
STEP_US = 1000.0
AUTOGRAD = {"Sequence number": 1, "Fwd thread id": 0}


# --- a rank that computes, goes forward and backward, and exchanges ---------------------------------------------------


def forward(ts: float, dur: float) -> Event:
    return op("aten::mm", ts, dur, **AUTOGRAD)


def node(ts: float, dur: float) -> Event:
    return op("autograd::engine::evaluate_function: MmBackward0", ts, dur, tid=BACKWARD_THREAD)


def exchanged(
    ts: float, dur: float, number: int, *, at: float, name: str = "allreduce", elements: int = 1024, **args: object
) -> list[Event]:
    """A collective that the host launches at `at` and the device runs at `ts`."""
    described = {"correlation": number, **{key.replace("_", " "): value for key, value in args.items()}}
    return [
        launch(at, number, dur=1, tid=BACKWARD_THREAD),
        collective(ts, dur, name=name, elements=elements, args=described),
    ]


def base(computing_us: float = 600) -> list[Event]:
    """A step of 1000 us: a kernel from 100 us on, a forward pass until 300 us, a backward pass until 500 us."""
    return [
        step(0, 0, STEP_US),
        *launched("gemm", 100, computing_us - 100, 1, at=50),
        forward(60, 200),
        node(300, 200),
        region("Optimizer.step#SGD.step", 900, 50),
    ]


def job(events: Callable[[int], Sequence[Event]], ranks: int = 2, **metadata: object) -> list[bytes]:
    """One document per rank."""
    return [document(events(rank), rank=rank, world_size=ranks, **metadata) for rank in range(ranks)]


def alike(events: Sequence[Event], ranks: int = 2, **metadata: object) -> list[bytes]:
    return job(lambda _: events, ranks, **metadata)


def alone_ns(documents: Sequence[bytes], code: str, machine: Machine | None = None) -> float:
    """What the finding would claim of the average step as the only one; 0 where there is none."""
    finding = found(*documents, machine=machine).get(code)
    return finding.alone_ns if finding is not None else 0.0


def values(finding: Finding) -> dict[str, Any]:
    """Of all its evidence."""
    return {name: value for one in finding.evidence for name, value in one.values.items()}


def messages(finding: Finding) -> str:
    return " ".join(one.message for one in finding.evidence)


# --- RL-N01: exposed all-reduces of gradients -------------------------------------------------------------------------


def test_n01_claims_the_transfer_that_nothing_hides() -> None:
    first = exchanged(350, 100, 2, at=320, elements=1000)  # hidden
    last = exchanged(550, 200, 3, at=450, elements=2000)  # exposed from 600 on
    finding = found(*alike([*base(), *first, *last]))["RL-N01"]
    assert (finding.alone_ns, finding.bound_ns, finding.ranks) == (150_000, 150_000, 2)
    assert finding.accounts == {"transfer": 150_000}
    assert values(finding) == {
        "buckets": 2,
        "exposed_ns": 150_000,
        "step_ns": 1_000_000,
        "smallest_bytes": 4000,
        "largest_bytes": 8000,
        "last_share": 1.0,
    }


def test_n01_counts_what_is_flushed_after_the_last_node() -> None:
    assert alone_ns(alike([*base(), *exchanged(600, 100, 2, at=520)]), "RL-N01") == 100_000


def test_n01_leaves_waiting_to_others() -> None:
    """Rank 1 comes at 700: until then rank 0 waits, which is no transfer."""
    late = job(lambda rank: [*base(), *exchanged(700 if rank else 600, 100 if rank else 200, 2, at=450)])
    assert alone_ns(late, "RL-N01") == 100_000
    assert alone_ns(late, "RL-N13") == 50_000  # of rank 0 only, so half of it on average


def test_n01_says_of_a_rank_alone_that_waiting_may_be_in_it() -> None:
    together = alike([*base(), *exchanged(600, 100, 2, at=450)])
    assert "no other rank was recorded" not in messages(found(*together)["RL-N01"])
    alone = found(together[0])["RL-N01"]
    assert alone.alone_ns == 100_000
    assert values(alone)["untold_share"] == 1.0
    assert "no other rank was recorded" in messages(alone)


def test_n01_says_what_is_exposed_besides_and_of_unknown_kind() -> None:
    unlaunched = kernel("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", 750, 40, correlation=77)
    finding = found(*alike([*base(), *exchanged(600, 100, 2, at=450), unlaunched]))["RL-N01"]
    assert values(finding)["unknown_ns"] == 40_000
    assert "the bound may be too low" in messages(finding)


def test_n01_is_silent_where_computation_hides_the_traffic() -> None:
    assert "RL-N01" not in found(*alike([*base(computing_us=850), *exchanged(600, 200, 2, at=450)]))


def test_n01_is_silent_below_a_twentieth_of_the_step() -> None:
    assert "RL-N01" not in found(*alike([*base(), *exchanged(600, 49, 2, at=450)]))


def test_n01_takes_no_activations_for_gradients() -> None:
    """Tensor parallelism reduces activations forward and their gradients, of the same size, backward."""
    events = [*base(), *exchanged(150, 10, 2, at=70), *exchanged(600, 200, 3, at=450)]
    assert not {"RL-N01", "RL-N05"} & set(found(*alike(events)))


def test_n01_takes_no_other_scheme_for_ddp() -> None:
    scattered = exchanged(600, 100, 2, at=450, name="_reduce_scatter_base")
    reduced = exchanged(700, 100, 3, at=460, elements=7)
    assert "RL-N01" not in found(*alike([*base(), *scattered, *reduced]))


# --- RL-N02: gradients exchanged in every pass ------------------------------------------------------------------------


def accumulating(*, between: Sequence[Event] = (), sizes: tuple[int, int] = (1024, 1024)) -> list[Event]:
    """Two micro-batches, each with an all-reduce of 100 us that is exposed, then the optimizer."""
    return [
        step(0, 0, STEP_US),
        *launched("gemm", 20, 30, 1, at=10),
        forward(0, 90),
        node(100, 90),
        *exchanged(200, 100, 2, at=150, elements=sizes[0]),
        *between,
        forward(400, 90),
        node(500, 90),
        *exchanged(600, 100, 3, at=550, elements=sizes[1]),
        region("Optimizer.step#SGD.step", 800, 100),
    ]


def test_n02_claims_all_passes_but_the_last() -> None:
    findings = found(*alike(accumulating()))
    finding = findings["RL-N02"]
    assert (finding.alone_ns, finding.bound_ns) == (100_000, 100_000)
    assert values(finding) == {"passes": 2, "early_share": 0.5, "exposed_ns": 100_000, "step_ns": 1_000_000}
    assert (findings["RL-N01"].alone_ns, findings["RL-N01"].bound_ns) == (200_000, 100_000)


def test_n02_is_silent_where_the_optimizer_steps_after_each_pass() -> None:
    assert "RL-N02" not in found(*alike(accumulating(between=[region("Optimizer.step#SGD.step", 310, 50)])))


def test_n02_is_silent_where_other_gradients_are_exchanged() -> None:
    assert "RL-N02" not in found(*alike(accumulating(sizes=(1024, 77))))


def test_n02_is_silent_where_only_the_last_pass_exchanges() -> None:
    events = [event for event in accumulating() if event.get("args", {}).get("correlation") != 2]
    assert "RL-N02" not in found(*alike(events))


# --- RL-N03: copies into buckets and back -----------------------------------------------------------------------------

BACK, INTO = "torch.distributed.ddp.reducer::copy_bucket_to_grad", "torch::distributed::reducer::mul_out"
ON_DEVICE = "Memcpy DtoD (Device -> Device)"


def copied_by_ddp(into: str = INTO, back: str = BACK) -> bytes:
    """A kernel until 90 us, one into the bucket at 150 us, launched 8 us before, and a copy back at 200 us."""
    events = [
        step(0, 0, STEP_US),
        *launched("gemm", 10, 80, 1, at=5),
        op(into, 130, 20),
        *launched("elementwise", 150, 5, 2, at=140),
        op(back, 180, 20),
        op("aten::copy_", 182, 15),
        *copied(ON_DEVICE, 200, 5, 3, size_bytes=4000, at=185),
        op("aten::copy_", 300, 20),
        *copied(ON_DEVICE, 320, 5, 4, size_bytes=4000, at=305),
        *launched("gemm", 330, 600, 5, at=310),
    ]
    return document(events)


def test_n03_claims_the_copies_and_the_gaps_before_them() -> None:
    data = copied_by_ddp()
    assert claimed_ns(data, "RL-N03") == (5_000 + 60_000) + (5_000 + 45_000)
    assert matched(data)["RL-N03"].figures["into"] == matched(data)["RL-N03"].figures["back"] == 1
    assert values(found(data)["RL-N03"]) == {"into": 1, "back": 1, "copying_ns": 115_000, "step_ns": 1_000_000}


def test_n03_is_silent_where_nothing_is_copied_back() -> None:
    """Gradients that are views of their buckets already, and copies that have nothing to do with DDP."""
    assert claimed_ns(copied_by_ddp(back="mine"), "RL-N03") == 0


# --- RL-N04: buffers before every forward pass ------------------------------------------------------------------------


def broadcasting(
    *,
    broadcast: str = "nccl:broadcast",
    copy: str = ON_DEVICE,
    around: Sequence[Event] = (),
    more: Sequence[Event] = (),
) -> bytes:
    """DDP's forward: a broadcast until 80 us, a buffer copied at 150 us, then the model."""
    events = [
        step(0, 0, STEP_US),
        region("DistributedDataParallel.forward", 10, 500),
        region(broadcast, 20, 20),
        launch(25, 1, dur=2),
        collective(40, 40, name="broadcast", args={"correlation": 1}) | {"name": "ncclDevKernel_Broadcast_RING_LL"},
        *around,
        op("aten::copy_", 100, 20),
        *copied(copy, 150, 5, 2, size_bytes=400, at=105),
        op("aten::mm", 160, 20, **AUTOGRAD),
        *launched("gemm", 200, 700, 3, at=170),
        *more,
    ]
    return document(events)


def test_n04_claims_the_copies_and_the_gaps_before_them() -> None:
    data = broadcasting()
    assert claimed_ns(data, "RL-N04") == 5_000 + 70_000
    finding = found(data)["RL-N04"]
    assert values(finding) == {"copies": 1, "copying_ns": 75_000, "step_ns": 1_000_000, "broadcast_ns": 40_000}


@pytest.mark.parametrize(
    "data",
    [
        broadcasting(broadcast="nccl:all_reduce"),
        broadcasting(copy="Memcpy HtoD (Pinned -> Device)"),
        broadcasting(around=[op("aten::to", 95, 30)]),
        broadcasting(around=[op("aten::mm", 85, 5, **AUTOGRAD)]),
    ],
    ids=["no broadcast", "from the host", "inside an operator of the model", "after an operator of the model"],
)
def test_n04_is_silent_about_other_copies(data: bytes) -> None:
    assert claimed_ns(data, "RL-N04") == 0


def test_n04_says_nothing_of_broadcasts_outside_of_ddp() -> None:
    outside = [launch(920, 9, dur=2), collective(950, 20, name="broadcast", args={"correlation": 9})]
    data = broadcasting(more=outside)
    assert matched(data)["RL-N04"].figures["broadcast_ns"] == 40_000


# --- RL-N05: gradients in fp32 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["allreduce", "_reduce_scatter_base"])
def test_n05_claims_half_of_what_is_exposed(name: str) -> None:
    finding = found(*alike([*base(), *exchanged(550, 150, 2, at=450, name=name)]))["RL-N05"]
    assert finding.alone_ns == 50_000
    assert finding.bound_ns == (0 if name == "allreduce" else 50_000)  # RL-N01 claims the same time first
    assert values(finding) == {"exposed_ns": 100_000, "step_ns": 1_000_000}
    assert [(place.start_ns, place.end_ns) for place in finding.places] == [(650_000, 700_000)] * 2


def test_n05_is_silent_about_other_types() -> None:
    assert "RL-N05" not in found(*alike([*base(), *exchanged(600, 100, 2, at=450, dtype="BFloat16")]))


def test_n05_is_silent_below_a_twentieth_of_the_step() -> None:
    assert "RL-N05" not in found(*alike([*base(), *exchanged(600, 49, 2, at=450)]))
    assert "RL-N05" in found(*alike([*base(), *exchanged(600, 51, 2, at=450)]))


# --- RL-N06 and RL-N07: gathering sharded parameters ------------------------------------------------------------------


def sharded(
    *,
    gathered: tuple[int, int] = (1024, 1024),
    scatter_at: float = 450,
    group: str = "[0, 1]",
    computing_us: float = 400,
) -> list[Event]:
    """All-gathers in the forward pass (exposed for 40 us) and in the backward pass (80 us), gradients scattered."""
    return [
        *base(computing_us),
        *exchanged(60, 60, 2, at=55, name="_allgather_base", elements=gathered[0]),
        *exchanged(400, 80, 3, at=350, name="_allgather_base", elements=gathered[1]),
        *exchanged(500, 10, 4, at=scatter_at, name="_reduce_scatter_base", Process_Group_Ranks=group),
    ]


def test_n06_claims_gathers_of_the_forward_pass() -> None:
    finding = found(*alike(sharded()))["RL-N06"]
    assert (finding.alone_ns, finding.bound_ns) == (40_000, 40_000)
    assert values(finding) == {"gathers": 1, "exposed_ns": 40_000, "step_ns": 1_000_000}


def test_n07_claims_gathers_of_the_backward_pass() -> None:
    finding = found(*alike(sharded()))["RL-N07"]
    assert (finding.alone_ns, finding.bound_ns) == (80_000, 80_000)
    assert values(finding) == {"gathers": 1, "exposed_ns": 80_000, "step_ns": 1_000_000}


def test_n07_is_silent_where_the_forward_pass_gathers_other_sizes() -> None:
    assert "RL-N07" not in found(*alike(sharded(gathered=(1024, 2048))))


@pytest.mark.parametrize(
    "changed",
    [{"scatter_at": 70}, {"group": "[0, 2]", "gathered": (1024, 2048)}],
    ids=["scatters forward", "other ranks scatter"],
)
def test_other_gathers_are_not_of_parameters(changed: dict[str, Any]) -> None:
    """Sequence parallelism scatters in the forward pass too."""
    assert not {"RL-N06", "RL-N07"} & set(found(*alike(sharded(**changed))))


def test_gathers_of_both_passes_are_of_parameters_however_gradients_travel() -> None:
    """Gloo scatters gradients by an all-reduce, which is no bucket of DDP."""
    events = [*sharded(), *exchanged(600, 100, 5, at=460, elements=2048)]
    reduced = [event for event in events if event.get("args", {}).get("correlation") != 4]
    codes = set(found(*alike(reduced)))
    assert {"RL-N06", "RL-N07"} <= codes
    assert "RL-N01" not in codes


def test_hidden_gathers_are_no_finding() -> None:
    hidden = [event for event in sharded(computing_us=600) if event.get("args", {}).get("correlation") != 2]
    assert not {"RL-N06", "RL-N07"} & set(found(*alike(hidden)))


# --- RL-N11: collectives below their link -----------------------------------------------------------------------------

LARGE = 16_000_000  # elements of 4 bytes: 64 MB


def with_link(fabric_gb_per_s: float = 100, pair_gb_per_s: float | None = 100, devices: int = 8) -> Machine:
    figures = {"fabric_bytes_per_s": fabric_gb_per_s * 1e9, "fabric_devices": float(devices)}
    if pair_gb_per_s is not None:
        figures["pair_bytes_per_s"] = pair_gb_per_s * 1e9
    return Machine(name="made up", figures={name: figure(value) for name, value in figures.items()})


def reduced_in(us: float, elements: int = LARGE, ranks: str = "[0, 1]", hosts: Sequence[str] = ("", "")) -> list[bytes]:
    """Two ranks all-reduce this much; nothing hides it. The bus carries as much as the payload."""
    events = [step(0, 0, 5000), *launched("gemm", 10, 90, 1, at=5)]
    events += exchanged(100, us, 2, at=50, elements=elements, Process_Group_Ranks=ranks)
    numbers = [int(one) for one in ranks.strip("[]").split(",")]
    return [
        document(events, rank=rank, world_size=16, host_name=host) for rank, host in zip(numbers, hosts, strict=True)
    ]


def test_n11_claims_what_the_link_could_save() -> None:
    finding = found(*reduced_in(1600), machine=with_link())["RL-N11"]  # 40 GB/s
    assert finding.alone_ns == 960_000
    assert values(finding) == {
        "collective": "all_reduce",
        "payload_bytes": 64e6,
        "ranks": 2,
        "bus_bytes_per_s": pytest.approx(40e9),
        "link_bytes_per_s": 100e9,
        "link_share": pytest.approx(0.4),
        "saved_ns": 960_000,
        "step_ns": 5_000_000,
    }


def test_n11_does_not_count_waiting() -> None:
    """One rank comes 800 us late: the transfer itself takes 800 us, at 80 GB/s."""
    first, second = reduced_in(1600)
    late = second.replace(b'"ts": 100, "dur": 1600', b'"ts": 900, "dur": 800')
    assert late != second
    assert "RL-N11" not in found(first, late, machine=with_link())


@pytest.mark.parametrize(
    ("documents", "machine"),
    [
        (reduced_in(800), with_link()),  # 80 GB/s
        (reduced_in(1600, elements=7_900_000), with_link()),  # too small
        (reduced_in(1600), None),
        (reduced_in(1600), with_link(fabric_gb_per_s=50)),
        (reduced_in(1600), with_link(pair_gb_per_s=50)),  # of the many links only one is between two
        (reduced_in(1600), with_link(pair_gb_per_s=None)),  # a mesh, and of how many links is not known
        (reduced_in(1600), with_link(devices=1)),
        (reduced_in(1600, ranks="[0, 8]"), with_link()),  # in two nodes
        (reduced_in(1600, hosts=("a", "b")), with_link()),
        (reduced_in(1600)[:1], with_link()),  # waiting is not known
    ],
    ids=["fast", "small", "no machine", "slow fabric", "slow pair", "mesh", "no fabric", "nodes", "hosts", "one rank"],
)
def test_n11_is_silent(documents: list[bytes], machine: Machine | None) -> None:
    assert "RL-N11" not in found(*documents, machine=machine)


def test_n11_knows_groups_by_name_to_be_in_one_node_where_the_job_is() -> None:
    def named(world_size: int) -> list[bytes]:
        events = [step(0, 0, 5000), *exchanged(100, 1600, 2, at=50, elements=LARGE, Process_Group_Ranks="")]
        return [document(events, rank=rank, world_size=world_size) for rank in range(2)]

    assert "RL-N11" in found(*named(2), machine=with_link())
    assert "RL-N11" not in found(*named(16), machine=with_link())


def test_n11_works_from_digests() -> None:
    ranks = [digest(data, with_link()) for data in reduced_in(1600)]
    known = combine([decoded(encoded(one, "test"), "rank") for one in ranks])
    assert [one.code for one in findings_of(known, outline_of(known)).findings] == ["RL-N11"]


# --- RL-N13: late ranks -----------------------------------------------------------------------------------------------


def late(rank: int, *, after_us: Sequence[float]) -> list[Event]:
    """Steps of 1000 us with an all-reduce until 900 us; rank 1 computes longer before it, so long in each step."""
    events: list[Event] = []
    for number, extra in enumerate(after_us):
        begin = number * STEP_US
        computing = 200 + (extra if rank else 0)
        events += [step(number, begin, STEP_US), forward(begin, 10), node(begin + 20, 60)]
        events += launched("gemm", begin + 50, computing, 10 * number + 1, at=begin + 10)
        events += exchanged(begin + 50 + computing, 850 - computing, 10 * number + 2, at=begin + 30)
    return events


def test_n13_names_the_late_rank_and_its_cause() -> None:
    finding = found(*job(lambda rank: late(rank, after_us=(300, 300, 300))))["RL-N13"]
    assert finding.alone_ns == finding.bound_ns == 150_000  # 300 us of every step of rank 0
    assert finding.accounts == {"peer wait": 150_000}
    assert {place.rank for place in finding.places} == {0}
    known = values(finding)
    assert (known["rank"], known["last"], known["operations"], known["caused_share"]) == ("1", 3, 3, 1.0)
    assert (known["cause_ns"], known["late_ns"], known["waiting_ns"]) == (300_000, 300_000, 150_000)
    assert "it computes {cause_ns} longer" in messages(finding)
    assert "the same rank, step after step" in messages(finding)


def test_n13_says_if_it_is_in_the_first_step_only() -> None:
    finding = found(*job(lambda rank: late(rank, after_us=(400, 0, 0))))["RL-N13"]
    assert "It is late in the first step only" in messages(finding)


def test_n13_says_if_only_one_step_was_seen() -> None:
    finding = found(*job(lambda rank: late(rank, after_us=(400,))))["RL-N13"]
    assert "Only one step was seen" in messages(finding)


def test_n13_is_silent_where_all_come_together() -> None:
    assert "RL-N13" not in found(*job(lambda rank: late(rank, after_us=(0, 0, 0))))
    assert "RL-N13" not in found(*job(lambda rank: late(rank, after_us=(50, 50, 50))))  # 2.5 % of the step on average


def test_n13_is_silent_about_a_rank_alone() -> None:
    assert "RL-N13" not in found(document(late(0, after_us=(300, 300)), world_size=2))


@pytest.mark.parametrize(
    ("cause", "says"),
    [
        ("before the window", "late already when the window began"),
        ("compute", "it computes"),
        ("communication", "it communicates"),
        ("input", "its data loader"),
        ("host", "its host"),
        ("other", "not told by the traces"),
    ],
)
@pytest.mark.parametrize("pattern", ["fixed", "rotating", "first step only", "one step seen"])
def test_n13_has_words_for_every_cause_and_pattern(cause: str, says: str, pattern: str) -> None:
    names = {"rank": "7", "cause": cause, "pattern": pattern, "also": "3"}
    numbers = ("last", "operations", "caused_share", "cause_ns", "late_ns", "first_step_share", "also_share")
    figures = {**dict.fromkeys(numbers, 1.0), "kinds": 2.0}
    seen = MatchTotals(ranks=8, steps=8, step_ns=1e6, bound_ns=1e5, alone_ns=1e5, figures=figures, names=names)
    first, why, when, also, kinds = late_ranks.explain(seen)
    assert says in why.message
    assert pattern != "rotating" or "late rank changes" in when.message
    assert (first.values["rank"], also.values["also"], kinds.values["kinds"]) == ("7", "3", 2.0)


@pytest.mark.parametrize("where", ["compute", "host", "input"])
def test_n13_finds_the_straggler_of_a_synthetic_job(tmp_path: Path, where: Any) -> None:
    spec = JobSpec(ranks=4, steps=3, layers=2, step_compute_us=2000, buckets=1)
    write_job(replace(spec, stragglers=(Straggler(rank=2, extra_us=800, where=where),)), tmp_path)
    findings = {one.code: one for one in diagnose([tmp_path], options=JobOptions(use_cache=False)).findings.findings}
    assert values(findings["RL-N13"])["rank"] == "2"
    assert findings["RL-N13"].alone_ns == pytest.approx(3 / 4 * 800_000, rel=0.1)
    assert {place.rank for place in findings["RL-N13"].places} <= {0, 1, 3}


# --- RL-N17: the exchange between experts -----------------------------------------------------------------------------


def test_n17_claims_exposed_dispatch_and_combine() -> None:
    events = [
        *base(),
        *launched("void deep_ep::intranode::dispatch<8>(int)", 550, 100, 2, at=450),
        *launched("void deep_ep::intranode::combine<8>(int)", 700, 30, 3, at=460),
    ]
    finding = found(document(events, world_size=8))["RL-N17"]
    assert finding.alone_ns == 80_000
    known = values(finding)
    assert (known["exchanges"], known["window_exposed_ns"], known["window_ns"]) == (2, 80_000, 130_000)
    assert known["untold_share"] == 1.0


def routed(forward_at: Sequence[float], backward_at: Sequence[float]) -> list[Event]:
    """All-to-alls of 20 us from 600 us on, launched in these passes."""
    times = enumerate((*forward_at, *backward_at))
    return [*base(), *(e for i, at in times for e in exchanged(600 + 20 * i, 20, 2 + i, at=at, name="all_to_all"))]


def test_n17_takes_all_to_alls_of_both_passes_for_experts() -> None:
    assert alone_ns(alike(routed((70, 80), (350, 360))), "RL-N17") == 80_000


def test_n17_takes_embeddings_of_a_recommender_for_no_experts() -> None:
    assert "RL-N17" not in found(*alike(routed((70, 80, 90, 100), (350,))))


def test_n17_is_silent_where_the_exchange_is_hidden() -> None:
    events = [*base(), *launched("void deep_ep::intranode::dispatch<8>(int)", 400, 205, 2, at=350)]
    assert "RL-N17" not in found(document(events, world_size=8))


# --- RL-P01: the bubble of a pipeline ---------------------------------------------------------------------------------


def staged(rank: int, micro_batches: int = 3) -> list[Event]:
    """Rank 0 computes 100 us for each micro-batch and sends it; rank 1 receives all of them from the start on."""
    events = [step(0, 0, STEP_US)]
    for number in range(micro_batches):
        sent = 110 + 110 * number
        if rank == 0:
            events += [
                op("aten::mm", sent - 105, 10),
                *launched("gemm", sent - 100, 100, 10 * number + 1, at=sent - 103),
            ]
            events += exchanged(sent, 10, 10 * number + 2, at=sent - 50, name="send", Dst_Rank=1)
        else:
            begin = 10 + 110 * number
            events += exchanged(begin, sent + 10 - begin, 10 * number + 1, at=begin - 5, name="recv", Src_Rank=0)
    if rank == 1:
        events += [op("aten::softmax", 890, 5), *launched("softmax", 900, 50, 99, at=892)]
    return events


def test_p01_claims_waiting_for_what_others_send() -> None:
    finding = found(*job(staged))["RL-P01"]
    assert finding.alone_ns == finding.bound_ns == 300_000 / 2  # rank 1 waits 100 us for each of three
    assert finding.accounts == {"peer wait": 150_000}
    known = values(finding)
    assert (known["stages"], known["micro_batches"], known["bubble_share"]) == (2, 3, pytest.approx(1 / 4))


def test_p01_is_silent_about_ranks_that_do_the_same_work() -> None:
    """A ring, as of context parallelism: both send and receive, and compute the same."""

    def ring(rank: int) -> list[Event]:
        other = 1 - rank
        begin = 500 if rank else 100
        return [
            *base(computing_us=101),
            *exchanged(begin, 600 - begin, 2, at=50, name="send", Dst_Rank=other),
            *exchanged(600 + begin, 600 - begin, 3, at=60, name="recv", Src_Rank=other),
        ]

    assert "RL-P01" not in found(*job(ring))


def test_p01_is_silent_without_waiting() -> None:
    def prompt(rank: int) -> list[Event]:
        name, partner = ("recv", {"Src_Rank": 0}) if rank else ("send", {"Dst_Rank": 1})
        work = [op("aten::mm" if rank else "aten::softmax", 40, 10), *launched("other", 110, 400, 3, at=45)]
        return [*base(computing_us=101), *work, *exchanged(600, 50, 2, at=50, name=name, **partner)]

    assert "RL-P01" not in found(*job(prompt))


def test_p01_finds_the_bubble_of_a_synthetic_pipeline(tmp_path: Path) -> None:
    spec = JobSpec(ranks=4, steps=2, layers=4, layout=Layout(pp=4), microbatches=2, step_compute_us=4000)
    write_job(spec, tmp_path)
    findings = {one.code: one for one in diagnose([tmp_path], options=JobOptions(use_cache=False)).findings.findings}
    known = values(findings["RL-P01"])
    assert (known["stages"], known["micro_batches"], known["bubble_share"]) == (4, 2, pytest.approx(3 / 5))


# --- all of them ------------------------------------------------------------------------------------------------------


def test_no_two_rules_claim_the_same_time() -> None:
    """Bounds of a job that has nearly everything add up to its exposed communication at most."""
    events = [*accumulating(), *exchanged(720, 50, 4, at=560, name="_allgather_base", elements=5)]
    known = diagnosis(*alike(events))
    findings = findings_of(known, outline_of(known)).findings
    claimed_ns = sum(one.bound_ns for one in findings if one.code.startswith(("RL-N", "RL-P")))
    assert 0 < claimed_ns <= known.exposed_ns / known.rank_steps
