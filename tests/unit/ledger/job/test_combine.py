"""Digests of a job: from traces or from files, against the machine that the user named or that the traces name."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from redline.errors import InputError, UnknownHardwareError
from redline.hardware.machine import Figure, FigureSource, Machine
from redline.hardware.profile import save_profile
from redline.job.read_files import JobOptions
from redline.ledger.job.combine import KernelTable, combine, host_activities_of, kernels_of
from redline.ledger.job.digests import digest_job
from redline.ledger.job.first_screen import outline_of
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.digest_file import decoded, encoded, save_digest
from redline.ledger.rank.host_activity import added
from redline.ledger.rank.kernel_table import merged
from redline.report.diagnose.tables import TABLES
from redline.trace.reader import ReadOptions
from tests.support.events import Event, document, kernel, launch, op, region
from tests.support.made_digests import distinct_digests
from tests.support.rules.matching import digest, step
from tests.support.traces.synthetic import JobSpec, ParallelSizes, Straggler, rank_file_name, simulate_job, write_rank

OPTIONS = JobOptions(jobs=1, use_cache=False)
SPEC = JobSpec(
    ranks=4,
    steps=2,
    layers=2,
    layout=ParallelSizes(dp=2, pp=2),
    microbatches=2,
    step_compute_us=2000,
    stragglers=(Straggler(rank=1, extra_us=500),),
)


@lru_cache
def _texts() -> tuple[bytes, ...]:
    schedule = simulate_job(SPEC)
    with TemporaryDirectory() as folder:
        for rank in range(SPEC.ranks):
            write_rank(schedule, rank, Path(folder), compress=False)
        return tuple((Path(folder) / rank_file_name(rank, compress=False)).read_bytes() for rank in range(SPEC.ranks))


def traces(folder: Path) -> list[Path]:
    paths = [folder / rank_file_name(rank, compress=False) for rank in range(SPEC.ranks)]
    for path, text in zip(paths, _texts(), strict=True):
        path.write_bytes(text)
    return paths


def digests(paths: Sequence[Path], machine: str | None = None, options: JobOptions = OPTIONS) -> tuple[Digest, ...]:
    found = digest_job(paths, machine, options)
    assert found.failures == ()
    return found.digests


# --- the machine ------------------------------------------------------------------------------------------------------


def test_each_trace_is_held_against_its_own_device(tmp_path: Path) -> None:
    (first, *_) = digests(traces(tmp_path))
    assert (first.facts.device_name, first.facts.machine) == ("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB")
    assert first.facts.machine_origin == "catalogue"
    assert first.facts.rated_ns > 0


def test_the_machine_that_the_user_named_wins(tmp_path: Path) -> None:
    (one,) = digests(traces(tmp_path)[:1], "H100-PCIe-80GB")
    assert (one.facts.device_name, one.facts.machine) == ("NVIDIA H100 80GB HBM3", "H100-PCIe-80GB")
    (own,) = digests(traces(tmp_path)[:1])
    bf16, pcie = own.arithmetic[0], one.arithmetic[0]
    assert (bf16.flops, pcie.flops) == (bf16.flops, bf16.flops)
    assert pcie.peak_flops_per_s < bf16.peak_flops_per_s


def test_a_profile_may_be_named(tmp_path: Path) -> None:
    peak = Figure(value=5e14, source="measured for a test", date="2026-08-01", origin=FigureSource.CALIBRATED)
    bandwidth = replace(peak, value=2e12)
    machine = Machine(name="mine", figures={"peak_flops_per_s.bf16": peak, "memory_bytes_per_s": bandwidth})
    save_profile(machine, tmp_path / "mine.json", made_by="a test")
    (one,) = digests(traces(tmp_path)[:1], str(tmp_path / "mine.json"))
    assert (one.facts.machine, one.facts.machine_origin) == ("mine", "calibrated")
    assert one.arithmetic[0].peak_flops_per_s == 5e14


def test_a_machine_that_nobody_knows_is_an_error_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UnknownHardwareError):
        digest_job([tmp_path / "absent.json"], "Abacus 3000", OPTIONS)


def test_a_device_that_nobody_knows_is_no_error_but_told(tmp_path: Path) -> None:
    text = document(
        [op("aten::mm", 0, 5), launch(1, 1), kernel("gemm", 10, 5, correlation=1)],
        deviceProperties=[{"id": 0, "name": "Abacus 3000", "totalGlobalMem": 1, "numSms": 2}],
    )
    (tmp_path / "trace.json").write_bytes(text)
    (one,) = digests([tmp_path / "trace.json"])
    assert (one.facts.device_name, one.facts.machine, one.facts.rated_ns) == ("Abacus 3000", "", 0)
    assert "Abacus 3000" in one.facts.why_no_machine


def test_a_trace_that_names_no_device_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_bytes(document([op("aten::mm", 0, 5)]))
    (one,) = digests([tmp_path / "trace.json"])
    assert one.facts.machine == ""
    assert "`machine=...`" in one.facts.why_no_machine


# --- traces, digests, and files that are neither ----------------------------------------------------------------------


def test_digests_and_traces_give_the_same_diagnosis(tmp_path: Path) -> None:
    paths = traces(tmp_path)
    direct = digests(paths)
    files = [tmp_path / f"rank-{rank:05d}.digest" for rank in range(SPEC.ranks)]
    for one, file in zip(direct, files, strict=True):
        save_digest(one, file, made_by="a test")
    mixed = [files[0], paths[1], files[2], paths[3]]
    expected = outline_of(combine(direct))
    for given in (files, mixed):
        found = combine(digests(given))
        assert outline_of(found) == expected
        assert found.lateness == combine(direct).lateness
        assert found.collectives == combine(direct).collectives


def test_a_file_that_cannot_be_read_is_told_beside_the_others(tmp_path: Path) -> None:
    paths = [*traces(tmp_path)[:2], tmp_path / "broken.json", tmp_path / "broken.digest"]
    for path in paths[2:]:
        path.write_bytes(b"no trace at all")
    found = digest_job(paths, None, OPTIONS)
    assert [one.origin.rank for one in found.digests] == [0, 1]
    assert [failure.path for failure in found.failures] == sorted(map(str, paths[2:]))


def test_where_nothing_can_be_read_that_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "broken.digest").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"broken\.digest"):
        digest_job([tmp_path / "broken.digest"], None, OPTIONS)


def test_strict_reading_ends_with_the_first_failure(tmp_path: Path) -> None:
    (tmp_path / "broken.digest").write_bytes(b"nothing")
    strict = JobOptions(jobs=1, use_cache=False, reading=ReadOptions(strict=True))
    with pytest.raises(InputError, match=r"broken\.digest"):
        digest_job([*traces(tmp_path)[:1], tmp_path / "broken.digest"], None, strict)


def test_several_processes_and_the_cache_change_nothing(tmp_path: Path) -> None:
    paths = traces(tmp_path)
    expected = outline_of(combine(digests(paths)))
    for _ in range(2):
        assert outline_of(combine(digests(paths, options=JobOptions(jobs=2, use_cache=True)))) == expected


# Phases of the average step: sums of all ranks, or none where one rank does not tell them.


def trained(optimizer_us: float, rank: int = 0) -> Digest:
    node = op("autograd::engine::evaluate_function: MmBackward0", 40, 20, **{"Sequence number": 1, "Fwd thread id": 1})
    events: list[Event] = [
        step(0, 0, 60 + optimizer_us),
        op("aten::mm", 0, 30, **{"Sequence number": 1, "Fwd thread id": 0}),
        node,
        region("Optimizer.step#SGD.step", 60, optimizer_us),
    ]
    return digest(document(events, rank=rank, world_size=2))


def test_phases_are_of_the_average_step_of_a_rank() -> None:
    rows = {str(row.phase): row for row in combine([trained(40), trained(60, rank=1)]).phases}
    assert list(rows) == ["input", "forward", "backward", "optimizer", "between"]
    assert rows["forward"].time_ns == 40_000
    assert (rows["forward"].device_ns, rows["forward"].host_ns) == (30_000, 10_000)
    assert rows["optimizer"].time_ns == 50_000
    assert sum(row.share for row in rows.values()) == pytest.approx(1)


def test_a_digest_keeps_them() -> None:
    made = trained(40)
    assert decoded(encoded(made, "a test"), "a.digest").phases == made.phases


def test_a_rank_that_does_not_tell_leaves_none() -> None:
    silent = digest(document([kernel("gemm", 0, 50)], rank=1, world_size=2))
    found = combine([trained(40), silent])
    assert found.phases == ()
    assert not TABLES["phases"](found, verbose=False).rows


def test_the_table_leaves_out_phases_that_take_no_time() -> None:
    shown = TABLES["phases"](combine([trained(40)]), verbose=False)
    assert [row[:3] for row in shown.rows] == [
        ("forward", "40.00 us", "40.0 %"),
        ("backward", "20.00 us", "20.0 %"),
        ("optimizer", "40.00 us", "40.0 %"),
    ]


# Tables of all ranks added up in columns: the same rows as adding them up one by one.

RANKS = tuple(distinct_digests(3, simulated=8))


def test_rows_are_those_of_adding_one_by_one() -> None:
    ranks = [*RANKS, *RANKS[:2]]
    kernels, activities = kernels_of(ranks), host_activities_of(ranks)
    assert list(map(repr, kernels)) == list(map(repr, merged(row for rank in ranks for row in rank.kernels)))
    assert list(activities) == list(added(row for rank in ranks for row in rank.doing))
    assert len(kernels) == sum(len(rank.kernels) for rank in RANKS)
    assert repr(kernels[-1]) == repr(list(kernels)[-1])
    assert list(map(repr, kernels[2:4])) == list(map(repr, kernels))[2:4]


def test_equal_times_are_in_order_of_their_keys() -> None:
    ranks = [replace(rank, kernels=[replace(row, time_ns=5) for row in rank.kernels]) for rank in RANKS]
    assert [row.key for row in kernels_of(ranks)] == sorted(row.key for rank in ranks for row in rank.kernels)


def test_sums_beyond_63_bits_are_right_too() -> None:
    row = replace(RANKS[0].kernels[0], flops=2**62)
    ranks = [replace(RANKS[0], kernels=[row])] * 4
    assert [one.flops for one in kernels_of(ranks)] == [2**64]


def test_there_is_no_row_beyond_the_last() -> None:
    kernels = kernels_of(RANKS)
    assert isinstance(kernels, KernelTable)
    with pytest.raises(IndexError):
        kernels[len(kernels)]
