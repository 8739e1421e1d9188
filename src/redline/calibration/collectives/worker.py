"""What torchrun runs on every rank: joins the process group, measures or shows, and the first rank writes the result.

A rank that fails leaves one line in the folder and ends; torchrun then ends the others.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import msgspec
import torch
import torch.distributed as dist

from redline.artifacts import write_atomic
from redline.calibration.calibration_record import Collectives, Declined
from redline.calibration.collectives.collective_law import (
    ELEMENT_BYTES,
    OPERATIONS,
    CollectiveCase,
    CollectiveTimings,
    Groups,
    cases_of,
    declined_of,
    due,
    laws,
    levels,
    points_of,
    repeats,
    size_bytes,
    sizes,
)
from redline.calibration.collectives.health import (
    Who,
    pair_speeds,
    pair_times,
    pairs_declined,
    rank_speeds,
    rank_times,
    work_samples,
)
from redline.calibration.collectives.operations import (
    Buffers,
    Call,
    Circle,
    barrier,
    broadcast_numbers,
    everyones,
    fill,
    is_right,
    largest,
    prepared,
    result,
)
from redline.calibration.collectives.start import RESULT, OperationExample, RankFailure, failure_path
from redline.calibration.device import ProbeDevice
from redline.errors import UsageError, first_line

# --- timing -----------------------------------------------------------------------------------------------------------
# Times collectives on all ranks at once: every case in turn, round after round. Runs on the ranks only.
#
# A sample is a number of calls in a row after a barrier; all ranks make the same number. Nothing else is exchanged in a
# round: the times of all ranks meet at the end. So the calls are as bare as in a loop of the user's own.


_FEWEST_ROUNDS, _WANTED_ROUNDS, _MOST_ROUNDS = 3, 40, 200
_SAMPLE_NS = (300_000, 1_000_000)


class Harness:
    """The ranks of the world, and their groups by level."""

    def __init__(self, circles: Mapping[str, Circle | None], device: ProbeDevice) -> None:
        self._circles = circles
        """None where this rank is in no group of the level."""
        world = circles["world"]
        assert world is not None
        self._barrier = barrier(world)
        self._device = device

    def measure(
        self, cases: Sequence[CollectiveCase], buffers: Buffers, seconds: float, call_limit_s: float
    ) -> CollectiveTimings:
        """Check every case, drop those of which one call takes too long, with all larger ones, and time the rest."""
        until_s = time.monotonic() + seconds
        right = self._check(cases, buffers, call_limit_s)
        kept = [case for case in cases if case in right]
        calls = [self._call(case, buffers) for case in kept]
        rows = self._rounds(calls, self._repeats(calls, until_s), until_s)
        return CollectiveTimings(
            cases=tuple(kept),
            samples_ns=tuple(map(tuple, rows)),
            correct=tuple(right[case] for case in kept),
            dropped=tuple(case for case in cases if case not in right),
        )

    def _call(self, case: CollectiveCase, buffers: Buffers) -> Call | None:
        circle = self._circles[case.level]
        if circle is None:
            return None
        return prepared(case.operation, circle, *buffers.of(case.operation, circle, case.size_bytes))

    # --- correctness ----------------------------------------------------------------------------------------------

    def _check(self, cases: Sequence[CollectiveCase], buffers: Buffers, limit_s: float) -> dict[CollectiveCase, bool]:
        """Which results are right on every rank. It is the first warm-up, too."""
        right: dict[CollectiveCase, bool] = {}
        too_long: set[tuple[str, str]] = set()
        for case in sorted(cases, key=lambda case: case.size_bytes):
            if (case.operation, case.level) in too_long:
                continue
            wrong, took_s = self._checked(case, buffers)
            worst = largest([[float(wrong), took_s]], self._device)[0]
            if worst[1] > limit_s:
                too_long.add((case.operation, case.level))
            else:
                right[case] = not worst[0]
        return right

    def _checked(self, case: CollectiveCase, buffers: Buffers) -> tuple[bool, float]:
        """Tell whether the result of one call is wrong, and how long it took."""
        circle = self._circles[case.level]
        if circle is None:
            return False, 0.0
        give, take = buffers.of(case.operation, circle, case.size_bytes)
        call = prepared(case.operation, circle, give, take)
        call()  # the first one of a group may have to connect its ranks
        fill(case.operation, circle, case.size_bytes, give, take)
        took_s = self._device.timed_ns(call, 1) / 1e9
        held = result(case.operation, give, take)
        right = is_right(case.operation, circle, case.size_bytes, held)
        give.zero_()
        take.zero_()
        return not right, took_s

    # --- times ----------------------------------------------------------------------------------------------------

    def _repeats(self, calls: Sequence[Call | None], until_s: float) -> list[int]:
        """How many calls make a sample of each case, for enough rounds in the time left. The first rank decides."""
        once = [min(row) for row in zip(*(self._row(calls, [1] * len(calls), 0) for _ in range(2)), strict=True)]
        slowest_ns = largest([once], self._device)[0]
        spare_ns = (until_s - time.monotonic()) * 1e9
        least_ns, most_ns = _SAMPLE_NS
        sample_ns = min(most_ns, max(least_ns, spare_ns / _WANTED_ROUNDS / max(1, len(calls))))
        wanted = [repeats(once_ns, sample_ns) for once_ns in slowest_ns]
        return broadcast_numbers(wanted, self._device)

    def _rounds(self, calls: Sequence[Call | None], counts: Sequence[int], until_s: float) -> list[list[float]]:
        """The slowest rank's time of one call, by round and case."""
        rows: list[list[float]] = []
        goes_on = True
        while goes_on:
            began_s = time.monotonic()
            rows.append(self._row(calls, counts, len(rows)))
            is_time = time.monotonic() + (time.monotonic() - began_s) < until_s
            wanted = len(rows) < _FEWEST_ROUNDS or (is_time and len(rows) < _MOST_ROUNDS)
            goes_on = bool(broadcast_numbers([int(wanted)], self._device)[0])
        return largest(rows, self._device)

    def _row(self, calls: Sequence[Call | None], counts: Sequence[int], turn: int) -> list[float]:
        """Each case once, beginning at another one from round to round."""
        row = [0.0] * len(calls)
        start = turn * len(calls) // _WANTED_ROUNDS % max(1, len(calls))
        for at in [*range(start, len(calls)), *range(start)]:
            row[at] = self.sample_ns(calls[at], counts[at])
        return row

    def sample_ns(self, call: Call | None, count: int) -> float:
        """One call of so many in a row, as this rank sees it; 0 on a rank that takes no part."""
        if call is not None:
            call()  # what other cases left in the caches is theirs
        self._meet()
        return 0.0 if call is None else self._device.timed_ns(call, count)

    def _meet(self) -> None:
        self._barrier()
        self._device.synchronise()


_TIMEOUT = timedelta(minutes=3)
_SHOWN_BYTES = 4 * ELEMENT_BYTES
_MIB = 1 << 20
_WORK_SAMPLES = 10  # in each of two passes, before and after the collectives


def main(words: Sequence[str]) -> int:
    options = _options(words)
    try:
        device = join(options)
        outcome = _show(device) if options.show else measure(device, options)
        if dist.get_rank() == 0:
            with write_atomic(options.folder / RESULT) as file:
                file.write(msgspec.json.encode(outcome))
        dist.destroy_process_group()
    except Exception as error:  # noqa: BLE001 (whatever torch, a driver or the network raises is told in one line)
        _leave(options.folder, error)
        return 1
    return 0


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="redline.calibration.collectives.worker")
    parser.add_argument("--folder", type=Path, required=True, help="where the result goes")
    parser.add_argument("--seconds", type=float, default=50.0, help="for the collectives; 0 for the health check alone")
    parser.add_argument("--join-seconds", type=float, default=180.0, help="in which the ranks have to find each other")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller messages")
    parser.add_argument("--show", action="store_true", help="contents before and after instead of times")
    return parser.parse_args(words)


def _leave(folder: Path, error: Exception) -> None:
    rank = int(os.environ.get("RANK", "0"))
    failure = RankFailure(
        rank=rank, at_ns=time.time_ns(), line=first_line(error), is_usage=isinstance(error, UsageError)
    )
    failure_path(folder, rank).write_bytes(msgspec.json.encode(failure))


def join(options: argparse.Namespace) -> ProbeDevice:
    """NCCL with a device for each rank where there is CUDA, gloo otherwise."""
    if int(os.environ["WORLD_SIZE"]) < 2:
        raise UsageError("collectives need at least two ranks: give --nproc-per-node 2 or more")
    device = ProbeDevice()
    if device.is_cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    late = threading.Timer(options.join_seconds, _give_up, [options])
    late.daemon = True
    late.start()
    dist.init_process_group("nccl" if device.is_cuda else "gloo", timeout=_TIMEOUT)
    dist.barrier(device_ids=[torch.cuda.current_device()] if device.is_cuda else None)
    late.cancel()
    return device


def _give_up(options: argparse.Namespace) -> None:
    """A rank whose partners are gone may wait for them without end, in code that no exception reaches."""
    why = f"the ranks did not find each other within {options.join_seconds:g} s: is the network between them open?"
    _leave(options.folder, TimeoutError(why))
    os._exit(1)


def _who(device: ProbeDevice) -> Who:
    """Nodes are told apart by torchrun: names of hosts may be the same."""
    local = int(os.environ.get("LOCAL_RANK", "0"))
    return Who(
        rank=dist.get_rank(),
        node=int(os.environ.get("GROUP_RANK", "0")),
        host=socket.gethostname(),
        device=f"cuda:{local}" if device.is_cuda else "cpu",
    )


def circles(groups_of_level: Mapping[str, Groups], device: ProbeDevice) -> dict[str, Circle | None]:
    """The group of this rank at each level; every rank has to make every group."""
    own = dist.get_rank()
    where = torch.device("cuda", torch.cuda.current_device()) if device.is_cuda else torch.device("cpu")
    joined: dict[str, Circle | None] = {}
    for level, groups in groups_of_level.items():
        joined[level] = None
        for ranks in groups:
            group = None if level == "world" else dist.new_group(list(ranks))
            if own in ranks:
                joined[level] = Circle(group=group, ranks=ranks, position=ranks.index(own), device=where)
    return joined


# --- measure ----------------------------------------------------------------------------------------------------------


def measure(device: ProbeDevice, options: argparse.Namespace) -> Collectives:
    everyone = everyones(_who(device))
    nodes = [who.node for who in everyone]
    groups_of_level = levels(nodes)
    own = circles(groups_of_level, device)
    world = own["world"]
    assert world is not None
    passes = [work_samples(world, device, _WORK_SAMPLES)]
    transfer_bytes = (16 if device.is_cuda else 1) * _MIB
    links = pair_speeds(pair_times(world, nodes, device, transfer_bytes, 8), nodes, transfer_bytes)
    call_limit_s = 0.2 if options.quick else 0.5
    cases = cases_of(groups_of_level, _sizes(device, quick=options.quick)) if options.seconds else []
    measured = CollectiveTimings(cases=(), samples_ns=(), correct=())
    if cases:
        buffers = Buffers(max(case.size_bytes for case in cases), device.torch_device)
        measured = Harness(own, device).measure(cases, buffers, options.seconds, call_limit_s)
    passes.append(work_samples(world, device, _WORK_SAMPLES))
    points = points_of(measured)
    return Collectives(
        backend=dist.get_backend(),
        world=world.size,
        hosts=len(set(nodes)),
        points=points,
        laws=laws(points),
        ranks=rank_speeds(rank_times(everyone, passes, device)),
        pairs=links,
        declined=(
            *_shared_processors(device),
            *pairs_declined(world.size, len(links)),
            *declined_of(measured, call_limit_s),
        ),
    )


def _shared_processors(device: ProbeDevice) -> tuple[Declined, ...]:
    local, processors = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), len(os.sched_getaffinity(0))
    if device.is_cuda or local <= processors:
        return ()
    why = f"{local} ranks of a node share {processors} processors"
    return (Declined(what="times without waiting for a processor", why=why),)


def _sizes(device: ProbeDevice, *, quick: bool) -> list[int]:
    most = (64 if quick else 256) if device.is_cuda else (4 if quick else 16)
    return sizes(most * _MIB, step=16 if quick else 4)


# --- show -------------------------------------------------------------------------------------------------------------


def _show(device: ProbeDevice) -> tuple[OperationExample, ...]:
    world = circles({"world": (tuple(range(dist.get_world_size())),)}, device)["world"]
    assert world is not None
    return tuple(_shown(operation, world) for operation in OPERATIONS)


def _shown(operation: str, world: Circle) -> OperationExample:
    size = size_bytes(operation, world.size, _SHOWN_BYTES)
    give, take = Buffers(size, world.device).of(operation, world, size)
    fill(operation, world, size, give, take)
    before = tuple(map(int, give.tolist()))
    prepared(operation, world, give, take)()
    held = result(operation, give, take)
    is_defined = due(operation, world.position, world.size, size) is not None
    after = tuple(map(int, held.tolist())) if is_defined else None
    of_ranks = everyones((before, after, is_right(operation, world, size, held)))
    return OperationExample(
        operation=operation,
        before=tuple(of_rank[0] for of_rank in of_ranks),
        after=tuple(of_rank[1] for of_rank in of_ranks),
        correct=all(of_rank[2] for of_rank in of_ranks),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
