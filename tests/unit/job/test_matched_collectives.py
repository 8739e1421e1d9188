"""All ranks together, on jobs whose truth is known: who was late and why, how long others waited, how fast it went."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import pytest

from redline.job.read_files import JobOptions
from redline.ledger.accounts import Account
from redline.ledger.job.collective_table import CollectiveRow, shared_collectives
from redline.ledger.job.combine import Diagnosis, combine
from redline.ledger.rank.digest import Digest, digest_of
from redline.timeline.intervals import Intervals
from redline.trace.reader import read_file
from redline.verbs.diagnose import diagnose
from tests.support.events import Event, collective, document, kernel, launch, op, read_one, region
from tests.support.traces.jobspec import Axis
from tests.support.traces.simulate import SimulatedJob
from tests.support.traces.synthetic import (
    JobSpec,
    ParallelSizes,
    Straggler,
    rank_file_name,
    simulate_job,
    write_job,
    write_rank,
)

SMALL = JobSpec(ranks=4, steps=3, layers=2, step_compute_us=2000, buckets=1)


@lru_cache
def digests_of(spec: JobSpec) -> tuple[Digest, ...]:
    schedule = simulate_job(spec)
    with TemporaryDirectory() as folder:
        for rank in range(spec.ranks):
            write_rank(schedule, rank, Path(folder), compress=False)
        files = [Path(folder) / rank_file_name(rank, compress=False) for rank in range(spec.ranks)]
        return tuple(digest_of(read_file(file).timelines[0], None) for file in files)


def diagnosis(spec: JobSpec) -> Diagnosis:
    return combine(digests_of(spec))


def late_by(spec: JobSpec, *stragglers: Straggler) -> Diagnosis:
    return diagnosis(replace(spec, stragglers=stragglers))


def per_step_us(found: Diagnosis, rank: int, account: Account) -> float:
    ledger = found.ranks[rank].ledger
    return ledger.of(account) / len(ledger.start_ns) / 1000


# --- one rank is late -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["compute", "host", "input"])
def test_a_late_rank_is_named_with_its_cause_and_what_it_costs(where: Literal["compute", "host", "input"]) -> None:
    usual, found = diagnosis(SMALL), late_by(SMALL, Straggler(rank=2, extra_us=800, where=where))
    assert found.lateness is not None
    assert found.lateness.pattern == "fixed"
    late = found.lateness.ranks[0]
    assert (late.rank, late.cause) == (2, where)
    assert late.share > 0.95
    assert late.last == len(found.lateness.last_ranks) == SMALL.steps
    assert late.cause_ns == pytest.approx(800_000, rel=0.05)
    assert late.late_ns == pytest.approx(800_000, rel=0.05)
    assert late.caused_ns == pytest.approx(3 * 3 * 800_000, rel=0.05)
    assert per_step_us(found, 2, Account.PEER_WAIT) < 10
    for rank in (0, 1, 3):
        assert per_step_us(found, rank, Account.PEER_WAIT) == pytest.approx(800, rel=0.05)
        usually = per_step_us(usual, rank, Account.TRANSFER)
        assert per_step_us(found, rank, Account.TRANSFER) == pytest.approx(usually, rel=0.05)


@pytest.mark.parametrize(("where", "speed"), [("compute", 1.0), ("host", 0.0), ("input", 0.0)])
def test_the_same_work_done_more_slowly_is_a_matter_of_speed(
    where: Literal["compute", "host", "input"], speed: float
) -> None:
    """On CPUs; Python that takes longer than the operators' ratio explains is not."""
    digests = digests_of(replace(SMALL, stragglers=(Straggler(rank=2, extra_us=800, where=where),)))
    works = {"same": (500, 500, 500), "other": (500, 700, 500), "unknown": (0, 0, 0), "none": ()}
    shares = {}
    for name, work in works.items():
        first, *rest = (replace(digest, step_work=works["same"]) for digest in digests)
        lateness = combine((replace(first, step_work=work), *rest)).lateness
        assert lateness is not None
        shares[name] = lateness.speed_share
    assert shares["same"] == pytest.approx(speed, abs=0.05)
    assert shares["other"] == pytest.approx(speed * 2 / 3, abs=0.05)
    assert shares["unknown"] == shares["none"] == 0.0


def test_without_a_late_rank_nobody_is_singled_out() -> None:
    found = diagnosis(replace(SMALL, ranks=8, steps=6)).lateness
    assert found is not None
    assert found.pattern == "rotating"
    assert found.ranks[0].share < 0.6
    assert found.wait_ns < 0.3 * found.residence_ns


def test_a_different_rank_in_each_step_is_rotating() -> None:
    stragglers = [Straggler(rank=step % 4, extra_us=800, step=step) for step in range(6)]
    found = late_by(replace(SMALL, steps=6), *stragglers).lateness
    assert found is not None
    assert found.pattern == "rotating"
    assert found.last_ranks == (0, 1, 2, 3, 0, 1)
    assert {late.cause for late in found.ranks} == {"compute"}


def test_a_rank_that_is_late_once_is_so_in_the_first_step_only() -> None:
    found = late_by(SMALL, Straggler(rank=1, extra_us=2000, where="host", step=0)).lateness
    assert found is not None
    assert (found.pattern, found.ranks[0].rank, found.ranks[0].cause) == ("first step only", 1, "host")
    assert found.first_step_share > 0.9


def test_of_one_step_no_pattern_is_claimed() -> None:
    found = late_by(replace(SMALL, steps=1), Straggler(rank=1, extra_us=2000)).lateness
    assert found is not None
    assert (found.pattern, found.ranks[0].rank) == ("one step seen", 1)


@pytest.mark.parametrize("layers", [2, 12])
def test_a_late_rank_of_a_tensor_parallel_group_is_found(layers: int) -> None:
    spec = replace(SMALL, layout=ParallelSizes(dp=2, tp=2), steps=4, layers=layers)
    found = late_by(spec, Straggler(rank=1, extra_us=1000)).lateness
    assert found is not None
    late = found.ranks[0]
    assert (late.rank, late.cause, found.pattern) == (1, "compute", "fixed")
    assert late.cause_ns == pytest.approx(late.late_ns, rel=0.1)


def test_a_rank_whose_trace_is_cut_off_is_compared_as_far_as_it_goes(tmp_path: Path) -> None:
    write_job(replace(SMALL, stragglers=(Straggler(rank=2, extra_us=800),)), tmp_path)
    cut = tmp_path / "rank-1.pt.trace.json.gz"
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    found = diagnose([tmp_path], options=JobOptions(use_cache=False)).diagnosis.lateness
    assert found is not None
    assert (found.ranks[0].rank, found.ranks[0].cause) == (2, "compute")


# --- clocks do not matter ---------------------------------------------------------------------------------------------

OFFSETS_US = (0.0, 5000.0, -3000.0, 12_000.0, 700.0, -80_000.0, 0.5, 1234.5)


@pytest.mark.parametrize(
    "layout",
    [ParallelSizes(dp=8), ParallelSizes(dp=2, pp=4), ParallelSizes(dp=2, tp=2, pp=2), ParallelSizes(pp=8)],
    ids=str,
)
def test_clocks_that_are_milliseconds_apart_change_nothing(layout: ParallelSizes) -> None:
    spec = JobSpec(ranks=8, steps=2, layers=8, layout=layout, microbatches=2, step_compute_us=4000)
    spec = replace(spec, stragglers=(Straggler(rank=3, extra_us=1500),))
    exact, shifted = diagnosis(spec), diagnosis(replace(spec, clock_offsets_us=OFFSETS_US))
    for one, other in zip(exact.ranks, shifted.ranks, strict=True):
        apart_ns = np.abs(one.ledger.steps - other.ledger.steps)
        assert int(apart_ns.max()) < 100_000  # a sender's wait is told by the clock where there is one, else by length
        if layout.pp == 1:
            assert int(apart_ns.max()) == 0
    if layout.pp < 8:
        assert exact.lateness is not None
        assert shifted.lateness is not None
        assert sorted(exact.lateness.last_ranks) == sorted(shifted.lateness.last_ranks)
        here, there = exact.lateness.ranks[0], shifted.lateness.ranks[0]
        assert (here.rank, here.cause) == (there.rank, there.cause)
        assert here.late_ns == pytest.approx(there.late_ns, abs=20_000)


def test_a_stage_that_shares_no_collective_with_the_others_still_knows_who_is_late() -> None:
    spec = JobSpec(ranks=4, steps=3, layers=2, layout=ParallelSizes(dp=2, pp=2), microbatches=2, step_compute_us=2000)
    late = (Straggler(rank=3, extra_us=900, where="compute"),)
    for offsets in ((0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, -9000.0), (0.0, 0.0, 9000.0, 0.0)):
        found = diagnosis(replace(spec, stragglers=late, clock_offsets_us=offsets)).lateness
        assert found is not None
        # Rank 1 has to wait for what rank 3 sends it, and so is late in turn.
        assert {late.rank: late.cause for late in found.ranks if late.share > 0.1} == {1: "communication", 3: "compute"}


# --- waiting against the schedule -------------------------------------------------------------------------------------


def expected_waiting_ns(schedule: SimulatedJob) -> list[int]:
    """Of each rank, straight from the simulated times: only communicating, and a partner not there yet."""
    waits: list[list[tuple[int, int]]] = [[] for _ in range(schedule.spec.ranks)]
    exposed = [_exposed(schedule, rank) for rank in range(schedule.spec.ranks)]
    for starts in _meetings(schedule):
        last = max(starts.values())
        for rank, start in starts.items():
            waits[rank].append((start, last))
    found = []
    for rank, pairs in enumerate(waits):
        times = np.array(pairs, np.int64).reshape(-1, 2)
        found.append((Intervals.union_of(times[:, 0], times[:, 1]) & exposed[rank]).length_ns)
    return found


def _exposed(schedule: SimulatedJob, rank: int) -> Intervals:
    stage = schedule.stage_of(rank)
    column = rank - stage.first_rank

    def time_of(kinds: set[str]) -> Intervals:
        items = [index for index, item in enumerate(stage.program) if item.kind in kinds]
        start, end = (times[:, items, column].reshape(-1) for times in (stage.device_start_ns, stage.device_end_ns))
        return Intervals.union_of(start, end)

    return time_of({"collective", "send", "receive"}) - time_of({"compute"})


def _meetings(schedule: SimulatedJob) -> list[dict[int, int]]:
    """For each exchange when each of its ranks arrived."""
    found: dict[tuple[object, ...], dict[int, int]] = {}
    spec = schedule.spec
    for number, stage in enumerate(schedule.stages):
        for index, item in enumerate(stage.program):
            if item.message is None:
                continue
            for column, rank in enumerate(stage.ranks):
                for step in range(spec.steps):
                    at = int(stage.device_start_ns[step, index, column])
                    onward = (item.message.direction == "activation") == (item.kind == "send")
                    pair = tuple(sorted((number, number + (1 if onward else -1))))
                    key = (
                        (step, index, number, _group(spec, item.message.axis, rank))
                        if item.message.direction is None
                        else (step, item.message.direction, item.microbatch, pair, column)
                    )
                    found.setdefault(key, {})[rank] = at
    return list(found.values())


def _group(spec: JobSpec, axis: Axis, rank: int) -> tuple[int, ...]:
    return spec.group_of(axis, rank).ranks


@pytest.mark.parametrize("microbatches", [1, 4, 8])
def test_the_bubbles_of_a_pipeline_are_waiting_for_peers(microbatches: int) -> None:
    spec = JobSpec(
        ranks=4, steps=2, layers=4, layout=ParallelSizes(pp=4), microbatches=microbatches, step_compute_us=8000
    )
    found = diagnosis(spec)
    assert found.unmatched_ns == 0
    for rank, expected in enumerate(expected_waiting_ns(simulate_job(spec))):
        waited = found.ranks[rank].ledger.of(Account.PEER_WAIT)
        assert waited == pytest.approx(expected, rel=0.02, abs=50_000)
    # 1F1B: stages - 1 of microbatches + stages - 1 slots are empty on every stage.
    share = sum(rank.ledger.of(Account.PEER_WAIT) / rank.ledger.window_ns for rank in found.ranks) / 4
    assert share == pytest.approx(3 / (microbatches + 3), rel=0.15)


@pytest.mark.parametrize(
    "spec",
    [
        JobSpec(ranks=4, steps=2, layers=4, step_compute_us=3000),
        JobSpec(ranks=4, steps=2, layers=4, step_compute_us=3000, collectives="all_gather_reduce_scatter"),
        JobSpec(ranks=4, steps=2, layers=4, step_compute_us=3000, layout=ParallelSizes(dp=2, tp=2)),
        JobSpec(
            ranks=8, steps=2, layers=4, step_compute_us=3000, layout=ParallelSizes(dp=2, tp=2, pp=2), microbatches=3
        ),
    ],
    ids=["ddp", "fsdp", "dp and tp", "dp, tp and pp"],
)
def test_waiting_is_that_of_the_schedule(spec: JobSpec) -> None:
    spec = replace(spec, stragglers=(Straggler(rank=1, extra_us=700, where="host"),))
    found = diagnosis(spec)
    for rank, expected in enumerate(expected_waiting_ns(simulate_job(spec))):
        assert found.ranks[rank].ledger.of(Account.PEER_WAIT) == pytest.approx(expected, rel=0.02, abs=40_000)
    assert sum(rank.ledger.of(Account.PEER_WAIT) for rank in found.ranks) > 0


# --- what cannot be matched -------------------------------------------------------------------------------------------


def test_some_ranks_of_a_job_are_compared_among_each_other() -> None:
    spec = replace(SMALL, stragglers=(Straggler(rank=2, extra_us=800),))
    found = combine([digests_of(spec)[rank] for rank in (3, 2)])
    assert [rank.origin.rank for rank in found.ranks] == [2, 3]
    assert (found.missing, found.world_size) == ((0, 1), 4)
    assert found.lateness is not None
    assert found.lateness.ranks[0].rank == 2
    assert per_step_us(found, 1, Account.PEER_WAIT) == pytest.approx(800, rel=0.05)


def test_of_one_rank_nothing_is_known_of_waiting() -> None:
    found = combine(digests_of(SMALL)[:1])
    assert (found.lateness, found.missing) == (None, (1, 2, 3))
    assert found.unmatched_ns == found.exposed_ns > 0
    assert found.ranks[0].ledger.of(Account.PEER_WAIT) == 0


def test_a_job_without_communication_has_nobody_to_wait_for() -> None:
    found = diagnosis(replace(SMALL, collectives="none"))
    assert (found.lateness, found.exposed_ns, found.unmatched_ns, found.collectives) == (None, 0, 0, ())
    assert sum(rank.ledger.of(Account.PEER_WAIT) for rank in found.ranks) == 0


def test_sends_and_receives_whose_partners_are_unknown_are_not_matched() -> None:
    spec = JobSpec(ranks=4, steps=2, layers=4, layout=ParallelSizes(pp=4), microbatches=4, step_compute_us=4000)
    found = diagnosis(replace(spec, collective_metadata=False))
    assert {row.collective for row in found.collectives} == {"send", "receive"}
    assert {row.matched for row in found.collectives} == {0}
    assert found.unmatched_ns == found.exposed_ns > 0
    assert found.ranks[0].ledger.of(Account.PEER_WAIT) == 0


def test_a_sender_that_has_left_waits_no_longer() -> None:
    """It waited for its partner until that one came, or until it left by itself, whichever is first."""

    def with_point_to_point(rank: int, ts: float, dur: float) -> Digest:
        partner = {"Dst Rank": 1} if rank == 0 else {"Src Rank": 0}
        shared = [collective(100.0 * number, 20) for number in range(4)]  # on which clocks are aligned
        return digest_in([*shared, collective(ts, dur, name="send" if rank == 0 else "recv", args=partner)], rank)

    for sent, received, expected_ns in (
        ((1000, 10), (1100, 30), [10_000, 0]),  # the receiver comes when the sender is gone
        ((1000, 40), (1030, 30), [30_000, 0]),
        ((1050, 10), (1000, 60), [0, 50_000]),
    ):
        found = shared_collectives([with_point_to_point(0, *sent), with_point_to_point(1, *received)])
        last = np.flatnonzero(found.place == found.place.max())
        assert dict(zip(found.rank[last].tolist(), found.wait_ns[last].tolist(), strict=True)) == {
            0: expected_ns[0],
            1: expected_ns[1],
        }


def test_a_rank_that_is_given_twice_is_told() -> None:
    found = combine([*digests_of(SMALL), digests_of(SMALL)[1]])
    assert found.doubles == (1,)
    for rank in found.ranks:
        rank.ledger.self_check()


# --- which ranks do the same ------------------------------------------------------------------------------------------


def rank_with(operators: Sequence[str], rank: int, kernels: int = 10) -> Digest:
    events: list[Event] = [region("ProfilerStep#0", 0, 2000)]
    for number in range(kernels):
        name = operators[number % len(operators)]
        shape = {"Input Dims": [[number, 8]]}
        described: dict[str, Any] = shape
        events += [
            op(name, 20 * number, 5, **described),
            launch(20 * number + 1, number + 1),
            kernel(f"k_{name}", 20 * number + 10, 5, correlation=number + 1),
        ]
    return digest_in(events, rank)


def digest_in(events: Sequence[Event], rank: int, world_size: int = 2) -> Digest:
    with TemporaryDirectory() as folder:
        return digest_of(read_one(document(events, rank=rank, world_size=world_size), Path(folder)), None)


def test_replicas_are_of_one_kind() -> None:
    assert set(diagnosis(SMALL).kinds) == {0}
    late = late_by(SMALL, Straggler(rank=2, extra_us=2000, where="compute"))
    assert set(late.kinds) == {0}


def test_stages_with_other_operators_are_of_another() -> None:
    embedding, block, head = (["embedding"], ["mm", "softmax"], ["loss"])
    ranks = [rank_with(names, rank) for rank, names in enumerate((embedding, embedding, block, block, head))]
    assert combine(ranks).kinds == (0, 0, 1, 1, 2)


def test_a_rank_that_does_much_more_of_the_same_is_another_kind() -> None:
    ranks = [rank_with(["mm"], rank, kernels) for rank, kernels in enumerate((20, 21, 30))]
    assert combine(ranks).kinds == (0, 0, 1)


def test_ranks_without_any_kernel_are_alike() -> None:
    assert combine([digest_in([region("nothing", 0, 5)], rank) for rank in range(2)]).kinds == (0, 0)


# --- the table of collectives -----------------------------------------------------------------------------------------


def measured(
    args: Mapping[str, Any], durations_us: tuple[float, float] = (100, 100), elements: int = 1000
) -> CollectiveRow:
    """An exchange of two ranks that end together after these times, with 1000 elements of 4 bytes on either side."""
    end = 1000.0
    ranks = []
    for rank, dur in enumerate(durations_us):
        sides = {"In msg nelems": elements, "Out msg nelems": elements}
        own = {"send": {"Dst Rank": 1}, "recv": {"Src Rank": 0}} if args.get("pair") else {}
        name = ("send", "recv")[rank] if args.get("pair") else args["Collective name"]
        described = {**sides, **{key: value for key, value in args.items() if key != "pair"}, **own.get(name, {})}
        event = collective(end - dur, dur, name=name, args={**described, "Collective name": name})
        ranks.append(digest_in([region("ProfilerStep#0", 0, 1100), event], rank))
    (row,) = combine(ranks).collectives
    return row


@pytest.mark.parametrize(
    ("args", "payload_bytes", "bus_factor"),
    [
        ({"Collective name": "allreduce", "Group size": 4}, 4000, 1.5),
        ({"Collective name": "allreduce", "Group size": 2}, 4000, 1.0),
        ({"Collective name": "_allgather_base", "Group size": 4, "Out msg nelems": 4000}, 16_000, 0.75),
        ({"Collective name": "_reduce_scatter_base", "Group size": 4, "Out msg nelems": 250}, 4000, 0.75),
        ({"Collective name": "all_to_all", "Group size": 8}, 4000, 0.875),
        ({"Collective name": "broadcast", "Group size": 4}, 4000, 1.0),
        ({"pair": True, "Group size": 2}, 4000, 1.0),
    ],
    ids=["all_reduce of 4", "all_reduce of 2", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send"],
)
def test_speeds_are_those_of_nccl_tests(args: Mapping[str, Any], payload_bytes: int, bus_factor: float) -> None:
    row = measured(args)
    assert (row.payload_bytes, row.calls, row.matched) == (payload_bytes, 2, 2)
    assert row.typical_ns == 100_000
    assert row.algorithm_bytes_per_s == pytest.approx(payload_bytes / 100e-6)
    assert row.bus_bytes_per_s == pytest.approx(bus_factor * payload_bytes / 100e-6)


def test_waiting_is_no_part_of_the_speed() -> None:
    row = measured({"Collective name": "allreduce", "Group size": 2}, (900, 100))
    assert (row.residence_ns, row.wait_ns, row.typical_ns) == (1_000_000, 800_000, 100_000)
    assert row.bus_bytes_per_s == pytest.approx(4000 / 100e-6)
    assert row.hidden_share == 0


def test_a_size_that_is_not_known_has_no_speed() -> None:
    row = measured({"Collective name": "allreduce", "Group size": 2, "dtype": "Mystery"})
    assert (row.algorithm_bytes_per_s, row.bus_bytes_per_s) == (None, None)


def test_what_computing_covers_is_hidden() -> None:
    events = [region("ProfilerStep#0", 0, 200), collective(0, 100), kernel("gemm", 25, 75)]
    (row,) = combine([digest_in(events, rank) for rank in range(2)]).collectives
    assert row.hidden_share == 0.75


def test_speeds_of_a_job_are_those_of_its_links() -> None:
    spec = replace(SMALL, kernel_jitter=0.0, end_jitter_us=0.0, collective_latency_us=0.0)
    (row,) = diagnosis(spec).collectives
    assert (row.collective, row.group_size, row.payload_bytes) == ("all_reduce", 4, spec.collective_bytes)
    assert row.calls == row.matched == 12
    assert row.bus_bytes_per_s == pytest.approx(spec.link_gb_per_s * 1e9, rel=0.01)


# --- a sender may leave first -----------------------------------------------------------------------------------------


def pair(sender: tuple[float, float], receiver: tuple[float, float], clock_us: float = 0.0) -> tuple[int, int]:
    """Waiting of a sender and a receiver, between whose ranks an all-reduce has set the clocks."""
    ranks = []
    for rank, (name, (start, end)) in enumerate((("send", sender), ("recv", receiver))):
        shift = clock_us if rank else 0.0
        level = [collective(1000 * number + shift, 100) for number in range(3)]
        partner = {"Dst Rank": 1} if name == "send" else {"Src Rank": 0}
        exchange = collective(5000 + start + shift, end - start, name=name, args=partner)
        mark = region("ProfilerStep#0", shift, 9000)
        ranks.append(digest_in([mark, *level, exchange], rank))
    waits = [rank.ledger.of(Account.PEER_WAIT) for rank in combine(ranks).ranks]
    return waits[0], waits[1]


@pytest.mark.parametrize("clock_us", [0.0, 7000.0])
def test_both_wait_until_the_later_one_comes(clock_us: float) -> None:
    assert pair((0, 50), (30, 50), clock_us) == (30_000, 0)
    assert pair((30, 50), (0, 50), clock_us) == (0, 30_000)
    assert pair((0, 5), (30, 50), clock_us) == (5_000, 0)  # it left before the receiver had come
