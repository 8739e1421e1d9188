"""Traces made up for tests of rules, and what the rules match in them."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from redline.findings.aggregate import findings_of
from redline.findings.finding import Finding
from redline.findings.match import check_matches, match_rules
from redline.hardware.machine import Machine
from redline.ledger.job.combine import Diagnosis, combine
from redline.ledger.job.first_screen import outline_of
from redline.ledger.rank.digest import Digest, digest_of
from redline.ledger.rank.rank_match import RankMatch
from tests.support.events import Event, kernel, launch, op, read_one, region
from tests.support.machines import figure


def digest(data: bytes, machine: Machine | None = None) -> Digest:
    """Of the only rank in a document, matched against all rules."""
    with TemporaryDirectory() as folder:
        timeline = read_one(data, Path(folder))
    found = digest_of(timeline, machine, match=match_rules)
    check_matches(found, "this digest")  # a match has all that its rule needs
    return found


def diagnosis(*documents: bytes, machine: Machine | None = None) -> Diagnosis:
    """Of a job with one document per rank."""
    return combine([digest(data, machine) for data in documents])


def matched(data: bytes, machine: Machine | None = None) -> dict[str, RankMatch]:
    """What each rule matched on the only rank of a document, by code."""
    return {one.code: one for one in digest(data, machine).matches}


def found(*documents: bytes, machine: Machine | None = None) -> dict[str, Finding]:
    """Findings and remarks of a job with one document per rank, by code."""
    known = diagnosis(*documents, machine=machine)
    findings = findings_of(known, outline_of(known))
    return {one.code: one for one in (*findings.findings, *findings.remarks)}


def claimed_ns(data: bytes, code: str, machine: Machine | None = None) -> int:
    """What the rule would claim in all steps of the only rank if there were no other; 0 where it does not match."""
    match = matched(data, machine).get(code)
    return int(match.alone_ns.sum()) if match is not None else 0


def step(number: int, ts: float, dur: float) -> Event:
    return region(f"ProfilerStep#{number}", ts, dur)


def launched(name: str, ts: float, dur: float, correlation: int, *, at: float, took: float = 2) -> list[Event]:
    """A kernel that runs at `ts`, and the call at `at` that launched it."""
    return [launch(at, correlation, dur=took), kernel(name, ts, dur, correlation=correlation)]


def copied(
    name: str, ts: float, dur: float, correlation: int, *, size_bytes: int, at: float, took: float = 2
) -> list[Event]:
    """A copy that runs at `ts`, and the call at `at` that started it; `took` beyond its end if that call blocks."""
    return [
        launch(at, correlation, dur=took, name="cudaMemcpyAsync"),
        kernel(name, ts, dur, correlation=correlation, category="gpu_memcpy", args={"bytes": size_bytes}),
    ]


BF16, FP32 = "c10::BFloat16", "float"


def machine(*, gb_per_s: float = 1000, gb: float = 0, **peak_tflops: float) -> Machine:
    figures = {
        "memory_bytes_per_s": figure(gb_per_s * 1e9),
        **({"memory_bytes": figure(gb * 1e9)} if gb else {}),
        **{f"peak_flops_per_s.{dtype}": figure(peak * 1e12) for dtype, peak in peak_tflops.items()},
    }
    return Machine(name="made up", figures=figures)


def described(dtype: str, *shapes: list[int]) -> dict[str, Any]:
    """What the profiler records of a call with these tensors."""
    return {
        "Input Dims": list(shapes),
        "Input type": [dtype] * len(shapes),
        "Input Strides": [],
        "Concrete Inputs": [""] * len(shapes),
    }


def calls(*names_and_args: tuple[str, dict[str, Any]], us: float = 100, kernels: str = "kernel") -> list[Event]:
    """A step of 1000 us with one operator after another, each with a kernel of this length; the device is never idle
    between the first and the last."""
    events = [step(0, 0, 1000)]
    for place, (name, args) in enumerate(names_and_args):
        at = 10 * place
        events.append(op(name, at, 8, **args))
        events.append(launch(at + 1, place + 1))
        events.append(kernel(f"{kernels}_{place}", 10 + us * place, us, correlation=place + 1))
    return events
