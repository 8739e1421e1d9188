"""What a digest keeps of memory: enough for every cause, bounded in size, and nothing of traces that recorded none."""

from dataclasses import fields, replace
from pathlib import Path

import msgspec
import pytest
import zstandard

import redline
from redline.errors import InputError
from redline.job.read_files import JobOptions
from redline.ledger.job.digests import digest_job
from redline.ledger.memory import rank_memory as kept
from redline.ledger.memory.byte_ledger import LedgerError
from redline.ledger.memory.device_memory import DeviceMemory, PeakEvidence
from redline.ledger.memory.rank_memory import KeptDevice, RankMemory, memory_of_rank, rank_memory
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.digest_file import MOST_BYTES, decoded, encoded
from redline.verbs.diagnose import diagnose
from tests.support.events import Event, document, op, read_one, region
from tests.support.memory_jobs import FLAWED, HEALTHY, MIB, Job, mark, said

OPTIONS = JobOptions(jobs=1, use_cache=False)
STATES = replace(HEALTHY, states=40)
JOBS = {
    **{code: (job,) for code, (job, _) in FLAWED.items()},
    "healthy": (HEALTHY,),
    "uneven": (HEALTHY, replace(HEALTHY, parameters=80), HEALTHY),
    "replicated": (STATES, STATES),
}


def digest(folder: Path, job: Job = HEALTHY) -> Digest:
    (made,) = digest_job([written(folder, job.events())], None, OPTIONS).digests
    return made


def written(folder: Path, events: list[Event]) -> Path:
    path = folder / "trace.json"
    path.write_bytes(document(events))
    return path


@pytest.mark.parametrize("name", JOBS)
def test_a_diagnosis_names_the_causes_that_memory_names(name: str, tmp_path: Path) -> None:
    """Whoever adds a rule that looks at more than a digest keeps meets this."""
    told = said(tmp_path, *JOBS[name])
    memory = diagnose(tmp_path, options=OPTIONS).diagnosis.memory
    assert memory is not None
    assert memory.causes == told.causes
    assert memory.fullest is not None
    assert (memory.fullest.rank, memory.fullest.peak) == (told.first.rank, told.first.peak)
    assert [step.peak_bytes for step in memory.fullest.steps] == [step.peak_bytes for step in told.first.steps]


def test_every_field_is_kept_or_known_not_to_be() -> None:
    """Whoever adds one says here whether a digest has it; a rule that needs it finds nothing in a diagnosis else."""
    of_peak = {"moment", "accounts", "holders", "no_stack_bytes", "before_bytes"}
    in_digest = {field.name for field in fields(KeptDevice)} - of_peak - {"seen"} | {"peak", "course"}
    elsewhere = {"file", "rank"}
    of_snapshots = {"failure", "failures", "history_is_whole", "contradictions", "is_trace", "has_sites"}
    assert {field.name for field in fields(DeviceMemory)} == in_digest | elsewhere | of_snapshots | {"problems"}


def test_a_device_returns_as_it_was_but_for_its_course(tmp_path: Path) -> None:
    (before,) = redline.memory(written(tmp_path, replace(HEALTHY, kept=3).events())).devices
    (after,) = memory_of_rank(digest(tmp_path, replace(HEALTHY, kept=3)))
    for field in fields(DeviceMemory):
        if field.name not in ("course", "steps"):
            assert getattr(after, field.name) == getattr(before, field.name), field.name
    assert set(after.course.accounts) == set(before.course.accounts)
    assert [(step.label, step.peak_bytes, step.end_bytes) for step in after.steps] == [
        (step.label, step.peak_bytes, step.end_bytes) for step in before.steps
    ]


def test_a_trace_without_memory_events_has_no_such_part(tmp_path: Path) -> None:
    timeline = read_one(document([op("aten::add", 0, 10)]), tmp_path)
    assert rank_memory(timeline) == b""
    (made,) = digest_job([tmp_path / "trace.json"], None, OPTIONS).digests
    assert "memory" not in msgspec.msgpack.decode(_inflated(made))
    assert "memory" in msgspec.msgpack.decode(_inflated(digest(tmp_path)))


def _inflated(made: Digest) -> bytes:
    return zstandard.ZstdDecompressor().decompress(encoded(made, "a test"))


def test_what_never_held_a_mebibyte_is_no_matter_of_a_diagnosis(tmp_path: Path) -> None:
    events = [op("aten::add", 0, 10), mark(1, kept.LEAST_BYTES - 1, 64), mark(2, 1 - kept.LEAST_BYTES, 64)]
    assert rank_memory(read_one(document(events), tmp_path)) == b""
    events = [op("aten::add", 0, 10), mark(1, kept.LEAST_BYTES, 64)]
    assert rank_memory(read_one(document(events), tmp_path))


def test_a_thousand_call_sites_and_devices_stay_small(tmp_path: Path) -> None:
    """And the largest of each account is among what is kept."""
    events: list[Event] = [region(f"ProfilerStep#{step}", 10_000 * step, 9_999) for step in range(6)]
    for number in range(3000):
        at = 10 * number + 5
        events += [
            op(f"operator {number} {'x' * 500}", at, 8),
            mark(at + 1, (3001 - number) * MIB, 4096 * (number + 1)),
        ]
        events.append(mark(at + 2, 2 * MIB, 1 << 40, 2 * MIB, device=number % 40, reserved=2 * MIB))
    made = digest_job([written(tmp_path, events)], None, OPTIONS).digests[0]
    assert len(made.memory) < 40_000
    data = encoded(made, "a test")
    assert len(data) <= MOST_BYTES
    devices = memory_of_rank(decoded(data, "here"))
    assert len(devices) == 8
    assert max(len(device.peak.holders) for device in devices) <= 21
    assert sum(devices[0].peak.accounts.values()) == sum(3001 - number for number in range(3000)) * MIB


# --- what fails costs the memory alone --------------------------------------------------------------------------------


def failing(_: object) -> DeviceMemory:
    raise LedgerError("accounts of 5 bytes where 7 are reserved")


def test_a_ledger_that_does_not_add_up_costs_the_memory_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "trace_device_memory", failing)
    result = diagnose(written(tmp_path, HEALTHY.events()), options=OPTIONS)
    assert result.diagnosis.in_steps.sum() > 0
    assert result.diagnosis.memory is not None
    assert result.diagnosis.memory.fullest is None
    said_of_it = " ".join(result.rendered("text").split())
    assert "memory left out of rank 0: Redline failed on it: LedgerError: accounts of 5 bytes where 7" in said_of_it
    assert "memory at the peak" not in said_of_it


@pytest.mark.parametrize(
    "damaged",
    [
        b"\x90",
        b"\x80rubbish",
        msgspec.msgpack.encode({"devices": [{"device": 0}]}),
        msgspec.msgpack.encode({"devices": 5}),
    ],
)
def test_a_damaged_part_of_a_digest_costs_the_memory_alone(tmp_path: Path, damaged: bytes) -> None:
    made = replace(digest(tmp_path), memory=damaged)
    with pytest.raises(InputError, match="this part of its digest is damaged, or of another version"):
        memory_of_rank(made)


def test_promises_of_what_is_kept_are_checked(tmp_path: Path) -> None:
    whole = msgspec.msgpack.decode(digest(tmp_path, replace(HEALTHY, clears_late=True)).memory, type=RankMemory)
    for changes in ({"evidence": PeakEvidence(left_over_bytes=1 << 50)}, {"steps": b"\x04abc"}, {"steps": b""}):
        wrong = RankMemory(devices=(replace(whole.devices[0], **changes),))
        with pytest.raises(InputError, match="damaged"):
            memory_of_rank(replace(digest(tmp_path), memory=msgspec.msgpack.encode(wrong)))


def test_a_rank_whose_part_is_damaged_does_not_cost_the_others(tmp_path: Path) -> None:
    said(tmp_path, HEALTHY, HEALTHY)
    digests = digest_job(sorted(tmp_path.glob("*.json")), None, OPTIONS).digests
    bad = replace(digests[1], memory=msgspec.msgpack.encode({"devices": 5}))
    for rank, made in enumerate((digests[0], bad)):
        (tmp_path / "digests").mkdir(exist_ok=True)
        (tmp_path / "digests" / f"rank-{rank}.digest").write_bytes(encoded(made, "a test"))
    memory = diagnose(tmp_path / "digests", options=OPTIONS).diagnosis.memory
    assert memory is not None
    assert [device.rank for device in memory.devices] == [0]
    assert [untold.rank for untold in memory.left_out] == [1]
