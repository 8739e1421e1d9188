"""Measures what the harness of collectives adds to bare calls of torch.distributed, and how well the laws predict.

    torchrun --standalone --nproc-per-node 2 scripts/check_collectives.py [--rounds 60] [--laws]

Harness and bare loop take turns in one run, on the same buffers; so does a second bare loop, which shows what chance
does to such a ratio.
With --laws, all sizes are measured as `redline calibrate` does, and each law is printed with its error on unseen sizes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist

from redline.calibration.collectives import worker
from redline.calibration.collectives.operations import Buffers, Circle, broadcast_numbers, largest, prepared
from redline.calibration.collectives.worker import Harness
from redline.calibration.device import ProbeDevice
from redline.units import format_bytes, format_ns, format_rate

SIZES = (1 << 20, 4 << 20, 16 << 20)
SAMPLE_NS = 8e6
Call = Callable[[], object]


def bare_calls(size: int, first: torch.Tensor, second: torch.Tensor) -> Mapping[str, Call]:
    """Every operation as one writes it by hand."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    whole, other = first[: size // 4], second[: size // 4]
    part = whole[: size // 4 // ranks]
    parts = list(other.chunk(ranks)) if rank == 0 else None
    ring = [
        dist.P2POp(dist.isend, whole, (rank + 1) % ranks),
        dist.P2POp(dist.irecv, other, (rank - 1) % ranks),
    ]
    return {
        "broadcast": lambda: dist.broadcast(whole, 0),
        "reduce": lambda: dist.reduce(whole, 0),
        "all_reduce": lambda: dist.all_reduce(whole),
        "gather": lambda: dist.gather(part, parts, 0),
        "all_gather": lambda: dist.all_gather_single(other, part),
        "scatter": lambda: dist.scatter(part, parts, 0),
        "reduce_scatter": lambda: dist.reduce_scatter_single(part, other),
        "all_to_all": lambda: dist.all_to_all_single(other, whole),
        "send_recv": lambda: [work.wait() for work in dist.batch_isend_irecv(ring)],
    }


def bare_ns(call: Call, repeats: int) -> float:
    call()
    dist.barrier()
    began_ns = time.perf_counter_ns()
    for _ in range(repeats):
        call()
    return (time.perf_counter_ns() - began_ns) / repeats


def compare(harness: Harness, ours: Call, bare: Call, rounds: int, device: ProbeDevice) -> list[tuple[float, float]]:
    """Ours / bare and, for what chance does, bare / bare: in every round, in which the three take turns."""
    once_ns = min(bare_ns(bare, 1) for _ in range(3))
    repeats = broadcast_numbers([max(1, round(SAMPLE_NS / once_ns))], device)[0]
    measures: list[Callable[[], float]] = [
        lambda: harness.sample_ns(ours, repeats),
        lambda: bare_ns(bare, repeats),
        lambda: bare_ns(bare, repeats),
    ]
    orders = list(permutations(range(3)))
    rows = []
    for turn in range(rounds):
        row = [0.0] * 3
        for at in orders[turn % len(orders)]:
            row[at] = measures[at]()
        rows.append(row)
    return [(row[0] / row[1], row[2] / row[1]) for row in largest(rows, device)]


def overheads(device: ProbeDevice, world: Circle, rounds: int) -> None:
    harness = Harness({"world": world}, device)
    buffers = Buffers(max(SIZES), device.torch_device)
    found: dict[str, list[tuple[float, float]]] = {}
    for size in SIZES:
        for operation, bare in bare_calls(size, buffers.give, buffers.take).items():
            ours = prepared(operation, world, *buffers.of(operation, world, size))
            found.setdefault(operation, []).extend(compare(harness, ours, bare, rounds, device))
    say(f"{rounds} rounds at {', '.join(map(format_bytes, SIZES))}; medians of the ratios, with 95 %")
    found["all"] = [row for rows in found.values() for row in rows]
    for operation, rows in found.items():
        harness_ratio, chance = (shown([row[at] for row in rows]) for at in (0, 1))
        say(f"{operation:15s} ours / bare {harness_ratio}   bare / bare {chance}")


def shown(ratios: Sequence[float]) -> str:
    """The median, and the order statistics between which it lies with 95 %."""
    ordered = sorted(ratios)
    reach = 0.98 * len(ordered) ** 0.5
    low = ordered[max(0, int(len(ordered) / 2 - reach))]
    high = ordered[min(len(ordered) - 1, int(len(ordered) / 2 + reach))]
    return f"{median(ordered):.3f} ({low:.3f} to {high:.3f})"


def predict(device: ProbeDevice) -> None:
    options = argparse.Namespace(folder=Path(), seconds=50.0, quick=False)
    found = worker.measure(device, options)
    for law in found.laws:
        say(f"{law.operation:15s} {law.group:6s} {format_ns(round(law.latency_ns)):>9s} "
            f"{format_rate(law.bytes_per_s, 'B'):>12s}  error on unseen sizes: median {law.error_median:6.1%}, "
            f"p90 {law.error_p90:6.1%}")  # fmt: skip
    say(f"median of the {len(found.laws)} medians: {median(law.error_median for law in found.laws):.1%}")


def say(line: str) -> None:
    if dist.get_rank() == 0:
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--laws", action="store_true")
    options = parser.parse_args()
    device = worker.join(argparse.Namespace(folder=Path(), join_seconds=60.0))
    if options.laws:
        predict(device)
    else:
        everyone = {"world": (tuple(range(dist.get_world_size())),)}
        world = worker.circles(everyone, device)["world"]
        assert world is not None
        overheads(device, world, options.rounds)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
