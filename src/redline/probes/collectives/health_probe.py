"""Takes the samples of the health check: the same arithmetic on every rank, and messages between every pair."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from redline.probes.collectives.agree import everyones, largest, told
from redline.probes.collectives.health import Pair, PairTimes, RankTimes, tournament
from redline.probes.collectives.operations import Call, Circle, barrier, exchange
from redline.probes.device import Device

_WORK_NS = 40_000_000  # much longer than a turn that the scheduler gives to one of two processes
_EXCHANGES = 10
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


def work_samples(world: Circle, device: Device, count: int) -> Samples:
    """All ranks do the same matmuls at the same time."""
    work = _work(device)
    work()
    once_ns = max(1.0, min(device.timed_ns(work, 1) for _ in range(5)))
    repeats = told([max(1, round(_WORK_NS / once_ns))], device)[0]
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


def rank_times(everyone: Sequence[Who], passes: Sequence[Samples], device: Device) -> tuple[RankTimes, ...]:
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


def _work(device: Device) -> Call:
    side = 4096 if device.is_cuda else 256
    left = torch.ones(side, side, device=device.torch_device)
    into = torch.empty_like(left)
    return lambda: torch.mm(left, left, out=into)


# --- pairs ------------------------------------------------------------------------------------------------------------


def pair_times(world: Circle, device: Device, transfer_bytes: int, passes: int) -> dict[Pair, PairTimes]:
    """Everybody meets everybody, several times over; fewer times where a link is very slow."""
    rounds = tournament(world.size)
    small = torch.zeros(2, 1, device=device.torch_device)
    large = torch.zeros(2, transfer_bytes // 4, device=device.torch_device)
    meet = barrier(world)
    own = torch.full((passes, len(rounds), 2), float("nan"), dtype=torch.float64)
    for turn in range(passes):
        began_s = time.monotonic()
        for number, pairs in enumerate(rounds):
            meet()
            partner = _partner(world.position, pairs)
            if partner is not None:
                own[turn, number, 0] = _exchanged_ns(small, partner, device, _EXCHANGES)
                own[turn, number, 1] = _exchanged_ns(large, partner, device, 1)
        if largest([[time.monotonic() - began_s]], device)[0][0] > _LONG_PASS_S:
            own = own[: turn + 1]
            break
    return _by_pair(rounds, everyones(own))


def _partner(rank: int, pairs: Sequence[Pair]) -> int | None:
    return next((sum(pair) - rank for pair in pairs if rank in pair), None)


def _exchanged_ns(messages: torch.Tensor, partner: int, device: Device, repeats: int) -> float:
    call = exchange(None, (messages[0], partner), (messages[1], partner))
    if repeats > 1:
        call()
    device.synchronise()
    return device.timed_ns(call, repeats)


def _by_pair(rounds: Sequence[Sequence[Pair]], table: Sequence[torch.Tensor]) -> dict[Pair, PairTimes]:
    """The slower of both ranks' times counts."""
    found = {}
    for number, pairs in enumerate(rounds):
        for first, second in pairs:
            both = torch.maximum(table[first][:, number], table[second][:, number])
            found[first, second] = PairTimes(latency_ns=both[:, 0].tolist(), transfer_ns=both[:, 1].tolist())
    return found
