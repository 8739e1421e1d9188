"""Takes the samples of the health check: the same arithmetic on every rank, and messages between every pair."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from redline.calibration.collectives.agree import broadcast_numbers, everyones, largest
from redline.calibration.collectives.health import Pair, PairTimes, RankTimes, pairings
from redline.calibration.collectives.operations import Call, Circle, barrier, exchange
from redline.calibration.device import ProbeDevice
from redline.calibration.matmuls import varied

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


Samples = list[tuple[float, float]]
"""Wall time of one piece of work in ns, and the share of processor time."""


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
    """What all ranks sampled."""
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
