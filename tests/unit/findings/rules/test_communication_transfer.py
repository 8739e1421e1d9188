"""Exchanges whose transfer takes long: slow links, many small ones, all-to-alls."""

from collections.abc import Sequence

import pytest

from redline.findings.aggregate import findings_of
from redline.hardware.machine import Machine
from redline.ledger.job.combine import combine
from redline.ledger.job.first_screen import outline_of
from redline.ledger.rank.digest_file import decoded, encoded
from redline.report.diagnose.finding_messages import sentence
from tests.support.events import Event, document
from tests.support.machines import figure
from tests.support.rules.communication import alike, alone_ns, base, exchanged, values
from tests.support.rules.matching import digest, found, launched, step

# RL-N11: large collectives inside a node are far slower than its links.


LARGE = 16_000_000  # elements of 4 bytes: 64 MB


def with_link(
    fabric_gb_per_s: float = 100, pair_gb_per_s: float | None = 100, devices: int = 8, nic_gb_per_s: float | None = None
) -> Machine:
    figures = {"fabric_bytes_per_s": fabric_gb_per_s * 1e9, "fabric_devices": float(devices)}
    if nic_gb_per_s is not None:
        figures["nic_bytes_per_s"] = nic_gb_per_s * 1e9
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
        (reduced_in(1600, elements=900_000), with_link()),  # too small
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


def test_n11_allows_a_collective_its_latency() -> None:
    """5 MB in 190 us are 26 GB/s, of which most is latency; in 1 ms they are 5 GB/s, of which little is."""
    small = 1_250_000
    assert "RL-N11" not in found(*reduced_in(190, elements=small), machine=with_link())
    assert "RL-N11" in found(*reduced_in(1000, elements=small), machine=with_link())


@pytest.mark.parametrize(("ranks", "hosts"), [("[0, 8]", ("", "")), ("[0, 1]", ("a", "b"))], ids=["nodes", "hosts"])
def test_n11_compares_ranks_of_several_nodes_with_the_network(ranks: str, hosts: Sequence[str]) -> None:
    machine = with_link(nic_gb_per_s=50)
    slow = found(*reduced_in(4700, ranks=ranks, hosts=hosts), machine=machine)["RL-N11"]  # 13.6 GB/s
    assert slow.evidence[0].values["link_bytes_per_s"] == 50e9
    assert "several nodes" in sentence(slow.evidence[1])
    assert "RL-N11" not in found(*reduced_in(1600, ranks=ranks, hosts=hosts), machine=machine)  # 40 GB/s


def test_n11_allows_each_rank_of_a_node_a_network_card() -> None:
    """What it can gain is then an upper bound however many cards a collective uses."""
    documents = reduced_in(4700, ranks="[0, 1, 8, 9]", hosts=("", "", "", ""))
    finding = found(*documents, machine=with_link(fabric_gb_per_s=900, nic_gb_per_s=80))["RL-N11"]  # 20.4 GB/s
    assert finding.evidence[0].values["link_bytes_per_s"] == 160e9


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


# RL-N21: a step exchanges many numbers one by one, and waits for each of them.


def metrics(count: int, *, elements: int = 1, at: float = 40, name: str = "allreduce") -> list[Event]:
    """So many collectives of 20 us each, launched before the forward pass."""
    exchanges = [
        exchanged(620 + 20 * number, 20, 2 + number, at=at, elements=elements, name=name) for number in range(count)
    ]
    return [*base(), *(event for events in exchanges for event in events)]


def test_n21_claims_what_small_collectives_expose() -> None:
    finding = found(*alike(metrics(5)))["RL-N21"]
    assert finding.alone_ns == 100_000
    assert (values(finding)["exchanges"], values(finding)["collective"]) == (5, "all_reduce")


def test_n21_counts_broadcasts_that_are_more_than_buffers() -> None:
    finding = found(*alike(metrics(8, name="broadcast")))["RL-N21"]
    assert (values(finding)["exchanges"], values(finding)["collective"]) == (8, "broadcast")


def test_n21_gains_alone_what_is_between_them_too() -> None:
    exchanges = [exchanged(620 + 30 * number, 20, 2 + number, at=40, elements=1) for number in range(5)]
    finding = found(*alike([*base(), *(event for events in exchanges for event in events)]))["RL-N21"]
    assert finding.bound_ns == 100_000
    assert finding.alone_ns == 100_000 + 4 * 10_000


@pytest.mark.parametrize(
    "events",
    [metrics(2), metrics(5, elements=1024), metrics(5, at=400), metrics(5, name="broadcast")],
    ids=["few", "large", "in the backward pass", "buffers"],
)
def test_n21_is_silent_otherwise(events: list[Event]) -> None:
    assert "RL-N21" not in found(*alike(events))


# RL-N17: the exchange of tokens between experts is not hidden behind computation.


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


# RL-N24: the all-to-alls of sharded embeddings are not hidden behind computation.


def embedding(*, forward: int = 3, backward: int = 1) -> list[Event]:
    """So many all-to-alls of 40 us each after the compute, launched in the forward and in the backward pass."""
    launched = [100.0] * forward + [400.0] * backward
    events = base()
    for number, at in enumerate(launched):
        events += exchanged(600 + 40 * number, 40, 2 + number, at=at, name="all_to_allv", elements=1 << 20)
    return events


def test_n24_claims_exposed_exchanges_of_embeddings() -> None:
    finding = found(*alike(embedding()))["RL-N24"]
    assert (finding.alone_ns, finding.bound_ns) == (160_000, 160_000)
    assert values(finding) == {"exchanges": 4, "exposed_ns": 160_000, "step_ns": 1_000_000}


def test_n24_leaves_experts_to_n17() -> None:
    findings = found(*alike(embedding(forward=2, backward=2)))
    assert "RL-N24" not in findings
    assert findings["RL-N17"].alone_ns == 160_000


def test_n24_is_silent_below_a_twentieth_of_the_step() -> None:
    assert "RL-N24" not in found(*alike(embedding(forward=1, backward=0)))
