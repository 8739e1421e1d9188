"""Which ranks are slow at the same work, and which pairs of ranks have a slow link: from samples to names."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import torch

from redline.calibration.bench import estimate
from redline.calibration.calibration_record import Declined, Estimate, PairSpeed, RankSpeed
from redline.calibration.collectives.collective_law import level_of
from redline.calibration.collectives.operations import (
    Call,
    Circle,
    barrier,
    broadcast_numbers,
    everyones,
    exchange,
    largest,
)
from redline.calibration.device import ProbeDevice
from redline.calibration.matmuls import varied

SLOW_RANK = 1.25
SLOW_LINK = 2.0
_MOST_ROUNDS = 63
_FEW_PAIRS = 3


@dataclass(frozen=True, kw_only=True)
class RankTimes:
    """What one rank needed for the same piece of work, again and again, while all others did it too."""

    rank: int
    host: str
    device: str
    wall_ns: Sequence[Sequence[float]]  # by pass; passes lie apart in time
    cpu_share: Sequence[float]
    """Processor time that it got in each, as a share of the wall time; empty where the work is not the processor's."""


def rank_speeds(times: Sequence[RankTimes]) -> tuple[RankSpeed, ...]:
    """A rank is slow where it needs a quarter more than the usual one, and their intervals are apart: in every pass.

    The usual one is the median rank, and with an even number of them the faster one in the middle: of two, the faster.
    """
    estimates = [estimate(rank_times.wall_ns) for rank_times in times]
    usual = sorted(estimates, key=lambda work_ns: work_ns.value)[(len(estimates) - 1) // 2]
    return tuple(_rank_speed(rank_times, work_ns, usual) for rank_times, work_ns in zip(times, estimates, strict=True))


def _rank_speed(times: RankTimes, work_ns: Estimate, usual: Estimate) -> RankSpeed:
    ratio = work_ns.value / usual.value
    return RankSpeed(
        rank=times.rank,
        host=times.host,
        device=times.device,
        work_ns=work_ns,
        ratio=ratio,
        slow=ratio > SLOW_RANK and work_ns.low > usual.high,
        cpu_share=median(times.cpu_share) if times.cpu_share else -1.0,
    )


# --- pairs ------------------------------------------------------------------------------------------------------------

Pair = tuple[int, int]


def pairings(nodes: Sequence[int]) -> list[list[Pair]]:
    """Rounds in which each rank meets another one, until all have met, or each has met so many.

    Where all nodes have equally many ranks, a round is inside the nodes or between them. So a link shares the network
    with as many others as every link of its level does, and is not slower than they are for that alone.
    """
    members = [[rank for rank, other in enumerate(nodes) if other == node] for node in sorted(set(nodes))]
    is_even = len({len(ranks) for ranks in members}) == 1
    rounds = [*_inside(members), *_between(members)] if is_even else tournament(len(nodes))
    if len(rounds) <= _MOST_ROUNDS:
        return rounds
    return [rounds[turn * len(rounds) // _MOST_ROUNDS] for turn in range(_MOST_ROUNDS)]


def _inside(members: Sequence[Sequence[int]]) -> list[list[Pair]]:
    rounds = tournament(len(members[0]))
    return [[_pair_of(ranks[first], ranks[second]) for ranks in members for first, second in pairs] for pairs in rounds]


def _between(members: Sequence[Sequence[int]]) -> list[list[Pair]]:
    """Whenever two nodes meet, the ranks of the second move on by one until all of both have met."""
    return [
        [
            _pair_of(rank, members[second][(place + shift) % len(members[second])])
            for first, second in pairs
            for place, rank in enumerate(members[first])
        ]
        for pairs in tournament(len(members))
        for shift in range(len(members[0]))
    ]


def _pair_of(first: int, second: int) -> Pair:
    return min(first, second), max(first, second)


def tournament(count: int) -> list[list[Pair]]:
    """Rounds in which each of so many meets another one, until all have met.

    One stays, the others move on by one place from round to round; those at opposite places meet. With an odd number of
    them, one rests.
    """
    places = list(range(count)) + [-1] * (count % 2)
    rounds = []
    for _ in range(len(places) - 1):
        met = zip(places[: len(places) // 2], reversed(places), strict=False)
        rounds.append([_pair_of(*pair) for pair in met if -1 not in pair])
        places = [places[0], places[-1], *places[1:-1]]
    return [pairs for pairs in rounds if pairs]


def pairs_declined(ranks: int, pairs: int) -> tuple[Declined, ...]:
    if pairs >= ranks * (ranks - 1) // 2:
        return ()
    why = f"there are {ranks:,} ranks: each was measured with at most {_MOST_ROUNDS} of the others"
    return (Declined(what="links between all pairs of ranks", why=why),)


@dataclass(frozen=True, kw_only=True)
class PairTimes:
    """Exchanges between two ranks: each sends to the other at once, and waits for what the other sent.

    One time for each of several passes: the fastest of it.
    """

    latency_ns: Sequence[float]  # of the smallest message
    transfer_ns: Sequence[float]  # of a large one


def pair_speeds(times: Mapping[Pair, PairTimes], nodes: Sequence[int], transfer_bytes: int) -> tuple[PairSpeed, ...]:
    """A link is slow where it needs more than twice as long as the usual one of its level, at its best.

    What a link can do is told by its fastest exchange: other load on the machine makes exchanges slow, never fast. And
    its fastest has to be slower than what the usual link takes in the middle, so that chance names nobody.
    """
    speeds = []
    for level in ("node", "across"):
        of_level = {pair: pair_times for pair, pair_times in times.items() if level_of(*pair, nodes) == level}
        if of_level:
            latency = _usual([pair_times.latency_ns for pair_times in of_level.values()])
            transfer = _usual([pair_times.transfer_ns for pair_times in of_level.values()])
            speeds += [
                _pair(pair, level, pair_times, latency, transfer, transfer_bytes)
                for pair, pair_times in of_level.items()
            ]
    return tuple(sorted(speeds, key=lambda speed: (speed.first, speed.second)))


def _usual(samples: Sequence[Sequence[float]]) -> Sequence[float]:
    """Of the link in the middle. Of three or fewer, of the best: a bad host is at the end of two links of three."""
    ordered = sorted(samples, key=min)
    return ordered[0] if len(ordered) <= _FEW_PAIRS else ordered[(len(ordered) - 1) // 2]


def _pair(
    pair: Pair, level: str, times: PairTimes, latency: Sequence[float], transfer: Sequence[float], size_bytes: int
) -> PairSpeed:
    return PairSpeed(
        first=pair[0],
        second=pair[1],
        level=level,
        latency_ns=min(times.latency_ns),
        bytes_per_s=size_bytes / min(times.transfer_ns) * 1e9,
        latency_ratio=min(times.latency_ns) / min(latency),
        bandwidth_ratio=min(transfer) / min(times.transfer_ns),
        slow=_is_slow(times.latency_ns, latency) or _is_slow(times.transfer_ns, transfer),
    )


def _is_slow(samples: Sequence[float], usual: Sequence[float]) -> bool:
    return min(samples) > SLOW_LINK * min(usual) and min(samples) > median(usual)


_WORK_NS = 40_000_000  # much longer than a turn that the scheduler gives to one of two processes
_SMALL, _LARGE = 20, 2  # exchanges in a row
_LONG_PASS_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Who:
    """One rank, as it tells the others."""

    rank: int
    node: int
    host: str
    device: str


Samples = list[tuple[float, float]]  # wall time of one piece of work in ns, and the share of processor time


def work_samples(world: Circle, device: ProbeDevice, count: int) -> Samples:
    """All ranks do the same matmuls at the same time."""
    work = _work(device)
    work()
    once_ns = max(1.0, min(device.timed_ns(work, 1) for _ in range(5)))
    repeats = broadcast_numbers([max(1, round(_WORK_NS / once_ns))], device)[0]
    meet = barrier(world)
    own: Samples = []
    for _ in range(count):
        meet()
        device.synchronise()
        cpu_ns = time.process_time_ns()
        wall_ns = device.timed_ns(work, repeats)
        share = (time.process_time_ns() - cpu_ns) / (wall_ns * repeats) / torch.get_num_threads()
        own.append((wall_ns, share))
    return own


def rank_times(everyone: Sequence[Who], passes: Sequence[Samples], device: ProbeDevice) -> tuple[RankTimes, ...]:
    return tuple(
        RankTimes(
            rank=who.rank,
            host=who.host,
            device=who.device,
            wall_ns=[[wall for wall, _ in rows] for rows in parts],
            cpu_share=[] if device.is_cuda else [share for rows in parts for _, share in rows],
        )
        for who, parts in zip(everyone, everyones(passes), strict=True)
    )


def _work(device: ProbeDevice) -> Call:
    side = 4096 if device.is_cuda else 256
    left = varied((side, side), "float32", device)
    into = torch.empty_like(left)
    return lambda: torch.mm(left, left, out=into)


# --- pairs ------------------------------------------------------------------------------------------------------------


def pair_times(
    world: Circle, nodes: Sequence[int], device: ProbeDevice, transfer_bytes: int, passes: int
) -> dict[Pair, PairTimes]:
    """Everybody meets everybody, several times over; fewer times where a link is very slow."""
    rounds = pairings(nodes)
    small, large = (torch.zeros(2, count, device=device.torch_device) for count in (1, transfer_bytes // 4))
    meet = barrier(world)
    own: list[list[tuple[float, float]]] = []
    while len(own) < passes:
        began_s = time.monotonic()
        own.append([])
        for pairs in rounds:
            meet()
            partner = next((sum(pair) - world.position for pair in pairs if world.position in pair), None)
            times = (0.0, 0.0)
            if partner is not None:
                times = _exchanged_ns(small, partner, device, _SMALL), _exchanged_ns(large, partner, device, _LARGE)
            own[-1].append(times)
        if largest([[time.monotonic() - began_s]], device)[0][0] > _LONG_PASS_S:
            break
    return _by_pair(rounds, everyones(own))


def _exchanged_ns(messages: torch.Tensor, partner: int, device: ProbeDevice, count: int) -> float:
    """The fastest of so many exchanges.

    An exchange takes as long as the slower side says: one that comes late finds the other's message waiting for it, and
    believes that it took no time.
    """
    call = exchange(None, (messages[0], partner), (messages[1], partner))
    device.synchronise()
    mine = torch.tensor([device.timed_ns(call, 1) for _ in range(count)], device=device.torch_device)
    others = torch.empty_like(mine)
    exchange(None, (mine, partner), (others, partner))()
    return float(torch.maximum(mine, others).min())


def _by_pair(
    rounds: Sequence[Sequence[Pair]], table: Sequence[Sequence[Sequence[tuple[float, float]]]]
) -> dict[Pair, PairTimes]:
    """Both ranks of a pair know the same times."""
    times = {}
    for number, pairs in enumerate(rounds):
        for pair in pairs:
            samples = [turn[number] for turn in table[pair[0]]]
            times[pair] = PairTimes(
                latency_ns=[latency for latency, _ in samples], transfer_ns=[transfer for _, transfer in samples]
            )
    return times
