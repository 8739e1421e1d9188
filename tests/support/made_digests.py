"""Digests of a large job in which every rank is its own: other shapes, kernels, names, times, hosts and clocks.

Some ranks are simulated, data parallel x 8 tensor parallel, and digested. Each rank of the large job is one of these
with every field changed: groups of 8 exchange tensors of their own size, and data-parallel groups span the whole job.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from redline.artifacts import DIGEST_ENDING
from redline.findings.match import match_rules
from redline.job.read_files import JobOptions
from redline.ledger.accounts import Account, place
from redline.ledger.job.digests import digest_job
from redline.ledger.rank.comparable_ranks import signature_of
from redline.ledger.rank.digest import Arithmetic, Digest, Facts
from redline.ledger.rank.digest_file import encoded
from redline.ledger.rank.exchanges import CollectiveSeries, Exchanges, PackedSpent, Spent
from redline.ledger.rank.host_activity import HostActivity
from redline.ledger.rank.kernel_table import KernelRow
from redline.ledger.rank.ledger import Ledger
from redline.ledger.rank.packing import PackedIntervals
from redline.ledger.rank.rank_match import RankMatch
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from tests.support.traces.synthetic import JobSpec, ParallelSizes, Straggler, write_job

SIMULATED, TENSOR_PARALLEL = 64, 8
Time = TypeVar("Time", I64, int)


def write_distinct(folder: Path, ranks: int) -> None:
    """One file per rank."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, digest in enumerate(distinct_digests(ranks)):
        (folder / f"rank-{number:05d}{DIGEST_ENDING}").write_bytes(encoded(digest, "tests/support/made_digests.py"))


def distinct_digests(ranks: int, simulated: int = SIMULATED) -> Iterator[Digest]:
    """In order of rank."""
    seeds = _seeds(simulated)
    return (_own(seeds[rank % simulated], rank) for rank in range(ranks))


def _seeds(simulated: int) -> tuple[Digest, ...]:
    with tempfile.TemporaryDirectory() as folder:
        layout = ParallelSizes(dp=simulated // TENSOR_PARALLEL, tp=TENSOR_PARALLEL)
        late = tuple(Straggler(rank=rank, extra_us=200 + rank) for rank in (5, 23) if rank < simulated)
        write_job(JobSpec(ranks=simulated, layout=layout, steps=3, layers=16, stragglers=late), Path(folder))
        paths = [Path(folder) / f"rank-{rank}.pt.trace.json.gz" for rank in range(simulated)]
        return digest_job(paths, None, JobOptions(use_cache=False, jobs=1), match=match_rules).digests


def _own(seed: Digest, rank: int) -> Digest:
    """The seed as another rank of a larger job: nothing in it is as in the seed but what all ranks have in common."""
    random = np.random.default_rng(rank)
    slower = int(random.integers(100_000, 1_000_000))  # one part in so many: collectives must still end together
    clock_ns = int(random.integers(-5_000_000, 5_000_000))
    kernels = tuple(_kernel(row, rank, number, random) for number, row in enumerate(seed.kernels))
    window_ns = seed.window_ns[0], _later(seed.window_ns[1], slower)
    ledger = _ledger(seed.ledger, window_ns[1] - window_ns[0], slower, random)
    return replace(
        seed,
        origin=replace(
            seed.origin,
            rank=rank,
            world_size=0,  # a part of these files is a job as well
            host=f"node-{rank // 8:05d}.cluster.example",
            source=f"/data/run-17/traces/node-{rank // 8:05d}/rank-{rank:05d}.pt.trace.json.gz",
            step_labels=tuple(f"ProfilerStep#{rank % 977 + number}" for number in range(len(seed.origin.step_labels))),
        ),
        facts=_facts(seed.facts, random),
        zero_ns=seed.zero_ns + clock_ns,
        window_ns=window_ns,
        ledger=ledger,
        phases=(seed.phases[0] + int(ledger.steps.sum() - seed.ledger.steps.sum()), *seed.phases[1:]),
        packed_exposed=PackedIntervals.of(
            Intervals(_later(seed.exposed.start, slower), _later(seed.exposed.end, slower))
        ),
        arithmetic=tuple(_arithmetic(row, random) for row in seed.arithmetic),
        signature=signature_of(row.key for row in kernels if row.operator),
        kernels=kernels,
        doing=tuple(_doing(row, rank, number, random) for number, row in enumerate(seed.doing)),
        exchanges=_exchanges(seed.exchanges, slower, random),
        spent=_spent(seed.spent, random),
        series=tuple(_series(one, seed.origin.rank, rank) for one in seed.series),
        matches=tuple(_match(one, ledger, rank, slower) for one in seed.matches),
    )


def _later(time_ns: Time, slower: int) -> Time:
    return time_ns + time_ns // slower


def _facts(facts: Facts, random: np.random.Generator) -> Facts:
    every = {field.name: getattr(facts, field.name) for field in fields(facts)}
    counts = {name: value for name, value in every.items() if type(value) is int and value}
    more = random.integers(1, 1000, len(counts)).tolist()
    kept = {"fabric_devices"}
    return replace(
        facts,
        **{name: value + add for (name, value), add in zip(counts.items(), more, strict=True) if name not in kept},
    )


def _ledger(ledger: Ledger, window_ns: int, slower: int, random: np.random.Generator) -> Ledger:
    start_ns, end_ns = _later(ledger.start_ns, slower), _later(ledger.end_ns, slower)
    steps, outside = ledger.steps.copy(), ledger.outside.copy()
    moved = random.integers(0, 1 + steps[:, place(Account.KERNEL_LOSS)] // 4)
    steps[:, place(Account.KERNEL_LOSS)] -= moved
    steps[:, place(Account.HOST)] += moved + (end_ns - start_ns) - (ledger.end_ns - ledger.start_ns)
    outside[place(Account.OTHER)] += window_ns - int(steps.sum() + outside.sum())
    return Ledger(start_ns=start_ns, end_ns=end_ns, steps=steps, outside=outside, window_ns=window_ns)


def _arithmetic(row: Arithmetic, random: np.random.Generator) -> Arithmetic:
    return replace(row, flops=row.flops + int(random.integers(1, 10**9)))


def _kernel(row: KernelRow, rank: int, number: int, random: np.random.Generator) -> KernelRow:
    more = 1 + float(random.random()) / 20
    return replace(
        row,
        kernel=f"{row.kernel[:90]}_{rank}_{number}",
        shapes=row.shapes.replace("[[", f"[[{rank + 1}, {number + 1}], [") if row.shapes else "",
        time_ns=round(row.time_ns * more),
        flops=round(row.flops * more),
        bytes=round(row.bytes * more),
        math_ns=row.math_ns * more,
        memory_ns=row.memory_ns * more,
    )


def _doing(row: HostActivity, rank: int, number: int, random: np.random.Generator) -> HostActivity:
    return replace(
        row,
        name=f"{row.name}_{rank}",
        site=f"{row.site} for_{rank}_{number}" if row.site else "",
        time_ns=row.time_ns + int(random.integers(1, 1000)),
    )


def _exchanges(exchanges: Exchanges, slower: int, random: np.random.Generator) -> Exchanges:
    earlier_ns = random.integers(0, 2000, len(exchanges))
    start_ns = _later(exchanges.start_ns.astype(np.int64), slower) - earlier_ns
    return replace(
        exchanges,
        start_ns=np.maximum.accumulate(start_ns),
        end_ns=_later(exchanges.end_ns.astype(np.int64), slower),
        exposed_ns=exchanges.exposed_ns + earlier_ns // 2,
    )


def _spent(packed: PackedSpent, random: np.random.Generator) -> PackedSpent:
    spent = packed.unpacked()
    columns = {name: values + random.integers(0, 3, len(spent)).cumsum() for name, values in spent.columns().items()}
    return PackedSpent.of(Spent(**columns))


def _series(series: CollectiveSeries, seed_rank: int, rank: int) -> CollectiveSeries:
    """Tensor-parallel groups have their own size; the data-parallel ones are those of the simulation, grown."""
    first = seed_rank - seed_rank % TENSOR_PARALLEL
    if not series.group.startswith(f"[{first}, {first + 1}"):
        return series
    begin = rank - rank % TENSOR_PARALLEL
    group = f"[{', '.join(map(str, range(begin, begin + TENSOR_PARALLEL)))}]"
    more = rank // TENSOR_PARALLEL
    return replace(series, group=group, in_elements=series.in_elements + more, out_elements=series.out_elements + more)


def _match(one: RankMatch, ledger: Ledger, rank: int, slower: int) -> RankMatch:
    return replace(
        one,
        claimed_ns=one.claimed_ns - one.claimed_ns // slower,
        alone_ns=one.alone_ns + rank % 7,
        places=Intervals(_later(one.places.start, slower), _later(one.places.end, slower)),
        figures={name: value + rank % 11 for name, value in one.figures.items()},
        names={name: f"{text} {rank}" for name, text in one.names.items()},
    )
