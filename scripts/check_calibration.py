"""Checks what `redline calibrate` measures against independent measures, in turns in one process.

    python -m scripts.check_calibration stream
    python -m scripts.check_calibration peaks
    python -m scripts.check_calibration ridge

`stream`: the bandwidth of memory against a STREAM in C with OpenMP, which gcc compiles for it: the same sizes, the same
threads and the same memory, bytes counted alike. Ends with 1 where the two differ by more than 5 % in the median of
rounds.

Plain loops in C write as torch does: a cache line is fetched before it is written, which costs traffic that STREAM does
not count. Stores that bypass the caches save it. They are shown, and not compared: no operator of torch uses them.

`peaks`: the best matmul in fp32 and bf16 against a bare loop around torch.mm over the same shapes and further ones, in
turns shape by shape. Ends with 1 where the best of both differ by more than 5 %.

`ridge`: the ridge of the roofline experiment against the best matmul in fp32 over the bandwidth of a copy of the same
size, in turns. Ends with 1 where the two differ by more than 20 %.
"""

import argparse
import ctypes
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from redline.calibration import compute, intensity, matmuls, memory
from redline.calibration.bench import BenchmarkCase, Samples, TimingBudget, take
from redline.calibration.calibration_record import Estimate, Kernel, Peak, Roofline, rate
from redline.calibration.compute import peaks as peaks_of
from redline.calibration.device import ProbeDevice
from redline.calibration.intensity import Load
from redline.calibration.memory import Movement
from redline.units import format_bytes, format_rate

PASSES = 4
TOLERANCE = 0.05


# --- stream -----------------------------------------------------------------------------------------------------------

STREAM = Path(__file__).parent / "stream.c"
GCC = ("gcc", "-O3", "-march=native", "-funroll-loops", "-fopenmp", "-fno-tree-loop-distribute-patterns")
"""The pattern that is turned off would make a call of memcpy of the loop, which may bypass the caches."""
WIDE = ("-mprefer-vector-width=512",) if platform.machine() == "x86_64" else ()
"""As wide as torch's own loops: with narrow ones, C is some percent slower."""
UNDISTURBED = 0.96
"""Of the time of all threads: they worked."""
ARRAYS = {"copy": 2, "triad": 3, "copy_bypassing": 2, "triad_bypassing": 3}


class Rested(ProbeDevice):
    """Times undisturbed calls.

    Threads of torch and of the library in C keep a core busy for a while after their work: it waits for them. Where
    others had a part of the cores during a call, it is tried again, some times.
    """

    def timed_ns(self, call: Callable[[], object], repeats: int) -> float:
        time_ns = 0.0
        for _ in range(5):
            time.sleep(0.01)
            began_ns = time.process_time_ns()
            time_ns = super().timed_ns(call, repeats)
            busy = (time.process_time_ns() - began_ns) / (time_ns * repeats * torch.get_num_threads())
            if busy > UNDISTURBED:
                break
        return time_ns


def compiled(folder: Path) -> ctypes.CDLL:
    target = folder / "stream.so"
    subprocess.run([*GCC, *WIDE, "-shared", "-fPIC", str(STREAM), "-o", str(target)], check=True)
    return ctypes.CDLL(str(target))


def c_case(library: ctypes.CDLL, ours: BenchmarkCase[Movement], name: str) -> BenchmarkCase[Movement]:
    """The same in C, on the very arrays: where pages lie makes a difference of some percent."""

    def prepare() -> Callable[[], object]:
        call: Any = ours.prepare()
        arrays, each_bytes = ARRAYS[name], ours.key.working_bytes // ARRAYS[name]
        parts = [ctypes.c_void_p(call.array.values.data_ptr() + number * each_bytes) for number in range(arrays)]
        function = getattr(library, name)

        def in_c(array: object = call.array) -> None:  # which it keeps
            function(*parts, ctypes.c_size_t(each_bytes // 4))

        return in_c

    key = Movement(kind=f"C {name}", working_bytes=ours.key.working_bytes, moved_bytes=ours.key.moved_bytes)
    return BenchmarkCase(key=key, prepare=prepare, about=key.kind)


def stream(arguments: argparse.Namespace) -> int:
    device = Rested("cpu")
    largest_bytes = memory.largest_bytes(device, quick=arguments.quick)
    ours = [
        case
        for case in memory.cases(device, quick=arguments.quick)
        if case.key.kind in ARRAYS and case.key.working_bytes > largest_bytes // 2
    ]
    samples: Samples[Movement] = Samples()
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(Path(folder))
        plain = [c_case(library, one, one.key.kind) for one in ours]
        bypassing = [
            c_case(library, one, name) for one in ours if hasattr(library, name := f"{one.key.kind}_bypassing")
        ]
        pairs = sorted([*ours, *plain], key=lambda case: case.key.kind.removeprefix("C "))
        for turn in range(PASSES):
            effort = TimingBudget(rounds=arguments.rounds, sample_ns=1, call_limit_ns=10**10)
            take(pairs if turn % 2 else pairs[::-1], device, effort, samples)  # whoever is first has no advantage
            take(bypassing, device, effort, samples)
    print(f"arrays of {format_bytes(largest_bytes)} together, {PASSES} x {arguments.rounds} rounds")
    for key in samples.passes:
        speed, best = (rate(key.moved_bytes, one(key, 0.0)) for one in (samples.estimate, samples.fastest))
        print(f"  {key.kind:18} {shown(speed)}, best {format_rate(best.value, 'B')}")
    return compared(samples)


def compared(samples: Samples[Movement]) -> int:
    """Like with like, by the ratio within each round: what slows the machine down for a while slows down both."""
    keys = {key.kind: key for key in samples.passes}
    results = []
    for kind in ("copy", "triad"):
        ratios = per_s(samples, keys[kind]) / per_s(samples, keys[f"C {kind}"])
        low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
        is_close = abs(middle - 1) <= TOLERANCE
        print(f"{kind}: redline / C within each round {middle:.3f} (quartiles {low:.3f} to {high:.3f}), ", end="")
        print(f"{'within' if is_close else 'NOT within'} {TOLERANCE:.0%}")
        results.append(0 if is_close else 1)
    return max(results)


def per_s(samples: Samples[Movement], key: Movement) -> np.ndarray:
    return key.moved_bytes * 1e9 / np.concatenate([np.asarray(times_ns) for times_ns in samples.passes[key]])


def shown(speed: Estimate) -> str:
    return f"{format_rate(speed.value, 'B')} ({speed.low / 1e9:.1f} to {speed.high / 1e9:.1f})"


# --- peaks ------------------------------------------------------------------------------------------------------------

FURTHER = (
    matmuls.MatmulShape(384, 384, 384),
    matmuls.MatmulShape(1536, 1536, 1536),
    matmuls.MatmulShape(2048, 2048, 1024),
    matmuls.MatmulShape(4096, 2048, 1024),
    matmuls.MatmulShape(4096, 1024, 2048),
    matmuls.MatmulShape(2048, 1024, 512),
    matmuls.MatmulShape(4096, 512, 512),
)
SAMPLE_NS = 2_000_000


def peaks(arguments: argparse.Namespace) -> int:
    device = ProbeDevice("cpu")
    cases = [case for case in compute.cases(device, quick=arguments.quick) if case.key.family == compute.MATMUL]
    results = [
        peak(dtype, [case for case in cases if case.key.dtype == dtype], device, arguments.rounds) for dtype in BARE
    ]
    return max(results)


BARE = {"fp32": torch.float32, "bf16": torch.bfloat16}


def peak(dtype: str, cases: list[BenchmarkCase[Kernel]], device: ProbeDevice, rounds: int) -> int:
    """Ours and theirs take turns on each shape; the further shapes are theirs alone."""
    samples: Samples[Kernel] = Samples()
    effort = TimingBudget(rounds=1, sample_ns=SAMPLE_NS, call_limit_ns=10**10)
    kept = [case.prepare() for case in cases]  # so that the arrays are not made anew in each round
    sweep = {str(product): Bare(product, BARE[dtype]) for product in [*map(of_case, cases), *FURTHER]}
    for turn in range(rounds):
        for case in cases:
            steps = partial(take, [case], device, effort, samples), sweep[case.key.shape].sample
            for step in steps if turn % 2 else steps[::-1]:  # whoever is first has no advantage
                step()
        for product in FURTHER:
            sweep[str(product)].sample()
    del kept
    (ours,) = peaks_of(samples, device, noise=0.0, sustain_s=0.0)
    return compared_peaks(ours, {shape: bare.best_flops_per_s for shape, bare in sweep.items()})


def of_case(case: BenchmarkCase[Kernel]) -> matmuls.MatmulShape:
    return matmuls.product_of(case.key.shape)


class Bare:
    """A loop around torch.mm, as anybody would write it."""

    def __init__(self, product: matmuls.MatmulShape, dtype: torch.dtype) -> None:
        self.flops, self.best_flops_per_s = 2 * product.m * product.n * product.k, 0.0
        self.left = torch.randn(product.m, product.k).to(dtype)
        self.right = torch.randn(product.k, product.n).to(dtype)
        self.out = torch.empty(product.m, product.n, dtype=dtype)

    def sample(self) -> None:
        for _ in range(2):
            torch.mm(self.left, self.right, out=self.out)
        began_ns, calls = time.perf_counter_ns(), 0
        while not calls or time.perf_counter_ns() - began_ns < SAMPLE_NS:
            torch.mm(self.left, self.right, out=self.out)
            calls += 1
        flops_per_s = calls * self.flops / (time.perf_counter_ns() - began_ns) * 1e9
        self.best_flops_per_s = max(self.best_flops_per_s, flops_per_s)


def compared_peaks(ours: Peak, bare: dict[str, float]) -> int:
    best = max(bare, key=lambda shape: bare[shape])
    ratio = ours.burst_flops_per_s.value / bare[best]
    print(f"{ours.dtype}: redline {format_rate(ours.burst_flops_per_s.value, 'FLOP')} at {ours.shape}, ", end="")
    print(f"bare torch.mm {format_rate(bare[best], 'FLOP')} at {best}; ratio {ratio:.3f}, ", end="")
    print(f"at the same shape {ours.burst_flops_per_s.value / bare[ours.shape]:.3f}")
    return 0 if abs(ratio - 1) <= TOLERANCE else 1


# --- ridge ------------------------------------------------------------------------------------------------------------

RIDGE_TOLERANCE = 0.20


def ridge(arguments: argparse.Namespace) -> int:
    """Three families in turns, as a calibration does it."""
    device, quick = ProbeDevice("cpu"), arguments.quick
    loads = intensity.cases(device, quick=quick)
    copies = [case for case in memory.cases(device, quick=quick) if case.key.kind == "copy"][-1:]
    matmuls = [case for case in compute.cases(device, quick=quick) if is_large_fp32(case.key)]
    taken: tuple[Samples[Load], Samples[Movement], Samples[Kernel]] = Samples(), Samples(), Samples()
    for _ in range(PASSES):
        effort = TimingBudget(rounds=max(1, arguments.rounds // 2), sample_ns=SAMPLE_NS, call_limit_ns=10**10)
        take(loads, device, effort, taken[0])
        take(copies, device, effort, taken[1])
        take(matmuls, device, effort, taken[2])
    found = intensity.roofline(taken[0], noise=0.0)
    (copy,) = memory.points(taken[1], noise=0.0)
    (best,) = peaks_of(taken[2], device, noise=0.0, sustain_s=0.0)
    if found is None:
        print(*taken[0].declined.values())
        return 1
    return compared_ridges(found, best.burst_flops_per_s.value, copy.bytes_per_s.value)


def is_large_fp32(kernel: Kernel) -> bool:
    return kernel.family == compute.MATMUL and kernel.dtype == "fp32" and kernel.flops >= 1e9


def compared_ridges(found: Roofline, flops_per_s: float, bytes_per_s: float) -> int:
    for point in found.points:
        print(f"  {point.flops_per_byte:6.2f} FLOP/B {point.time_ns.value / 1e6:8.1f} ms", end="")
        print(f" {point.flops / point.time_ns.value:8.1f} GFLOP/s {point.bytes / point.time_ns.value:6.1f} GB/s")
    ours = found.ridge_flops_per_byte
    print(
        f"experiment: {format_rate(found.peak_flops_per_s.value, 'FLOP')}, {shown(found.bandwidth_bytes_per_s)}", end=""
    )
    print(f": ridge {ours.value:.2f} ({ours.low:.2f} to {ours.high:.2f}) FLOP/B")
    apart = flops_per_s / bytes_per_s
    print(f"separately: {format_rate(flops_per_s, 'FLOP')}, {format_rate(bytes_per_s, 'B')}: ridge {apart:.2f} FLOP/B")
    print(f"ratio {ours.value / apart:.3f}")
    return 0 if abs(ours.value / apart - 1) <= RIDGE_TOLERANCE else 1


# --- the command line -------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    checks = parser.add_subparsers(required=True, metavar="check")
    for run, text in (
        (stream, "bandwidth of memory against STREAM in C"),
        (peaks, "the best matmuls against a bare loop around torch.mm"),
        (ridge, "the ridge of the roofline experiment against peak and bandwidth"),
    ):
        check = checks.add_parser(run.__name__, help=text)
        check.add_argument("--quick", action="store_true", help="with the sizes of `redline calibrate --quick`")
        check.add_argument("--rounds", type=int, default=10, help="samples of each in a pass")
        check.set_defaults(run=run)
    arguments = parser.parse_args()
    result: int = arguments.run(arguments)
    return result


if __name__ == "__main__":
    sys.exit(main())
