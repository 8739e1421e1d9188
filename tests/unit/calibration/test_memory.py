"""Bandwidth: sizes, bytes as STREAM counts them, shared memory that is given back, the figure beyond the caches."""

import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from redline.calibration import memory
from redline.calibration.bench import BenchmarkCase, Samples, TimingBudget, take
from redline.calibration.calibration_record import BandwidthPoint, Estimate
from redline.calibration.device import ProbeDevice
from redline.calibration.memory import Movement, last_level_bytes

_MIB = 1 << 20


class _SmallDevice(ProbeDevice):
    """A CPU that says how much memory is free."""

    def __init__(self, free_bytes: int) -> None:
        super().__init__("cpu")
        self._free_bytes = free_bytes

    def free_bytes(self) -> int:
        return self._free_bytes


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> ProbeDevice:
    monkeypatch.setattr(memory, "last_level_bytes", lambda: _MIB // 2)
    return _SmallDevice(4 * _MIB)


def _made_cache(processors: Path, cpu: int, shared: str, size: str) -> None:
    for number, (level, kind, bytes_text) in enumerate([("1", "Data", "48K"), ("3", "Unified", size)]):
        index = processors / f"cpu{cpu}" / "cache" / f"index{number}"
        index.mkdir(parents=True)
        (index / "level").write_text(f"{level}\n")
        (index / "type").write_text(f"{kind}\n")
        (index / "size").write_text(f"{bytes_text}\n")
        (index / "shared_cpu_list").write_text(f"{shared if level == '3' else cpu}\n")


class TestCaches:
    @pytest.fixture(autouse=True)
    def _four_processors(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})

    def test_a_cache_that_is_shared_counts_once(self, tmp_path: Path) -> None:
        for cpu in range(4):
            _made_cache(tmp_path, cpu, "0-3", "300M")
        assert last_level_bytes(tmp_path) == 300 * _MIB

    def test_groups_of_cores_with_their_own_caches_add_up(self, tmp_path: Path) -> None:
        for cpu in range(4):
            _made_cache(tmp_path, cpu, "0-1" if cpu < 2 else "2-3", "32768K")
        assert last_level_bytes(tmp_path) == 64 * _MIB

    @pytest.mark.parametrize("size", ["", "large", "K"])
    def test_a_system_that_does_not_say_is_assumed_to_be_usual(self, tmp_path: Path, size: str) -> None:
        _made_cache(tmp_path, 0, "0-3", size)
        assert last_level_bytes(tmp_path) == 32 * _MIB


class TestLargest:
    @pytest.mark.parametrize(
        ("cache", "free", "quick", "expected"),
        [
            (300, 1 << 20, False, 1200),
            (300, 1 << 20, True, 600),
            (32, 1 << 20, False, 256),  # at least
            (2000, 1 << 20, False, 4096),  # at most
            (300, 2400, False, 512),  # a quarter of what is free, to a power of two
        ],
    )
    def test_it_is_beyond_the_caches_and_fits(
        self, monkeypatch: pytest.MonkeyPatch, cache: int, free: int, quick: bool, expected: int
    ) -> None:
        monkeypatch.setattr(memory, "last_level_bytes", lambda: cache * _MIB)
        assert memory.largest_bytes(_SmallDevice(free * _MIB), quick=quick) == expected * _MIB

    def test_a_little_less_free_memory_changes_no_size(self) -> None:
        keys = [
            {case.key for case in memory.cases(_SmallDevice(free), quick=True)}
            for free in (4 * _MIB + 12_345, 4 * _MIB + 54_321)
        ]
        assert keys[0] == keys[1]


class TestCases:
    @pytest.mark.parametrize(("quick", "step"), [(False, 4), (True, 8)])
    def test_sizes_grow_from_16_kib_to_the_largest(self, quick: bool, step: int) -> None:
        sizes = sorted(
            case.key.working_bytes
            for case in memory.cases(_SmallDevice(64 * _MIB), quick=quick)
            if case.key.kind == "copy"
        )
        assert (sizes[0], sizes[-1]) == (16 << 10, 16 * _MIB)
        assert sizes[1] == sizes[0] * step
        assert sizes[-1] >= 2 * sizes[-2]

    def test_bytes_are_those_that_the_program_reads_and_writes(self, small: ProbeDevice) -> None:
        for case in memory.cases(small, quick=False):
            arrays = {"copy": 2, "triad": 3, "sum": 1, "allocate": 1}[case.key.kind]
            assert case.key.moved_bytes == case.key.working_bytes
            assert case.key.working_bytes % (arrays * 64) == 0
            call = case.prepare()
            assert case.key.moved_bytes == _touched_bytes(case.key.kind, call)

    def test_streams_compute_what_their_names_say(self, small: ProbeDevice) -> None:
        largest = {case.key.kind: case for case in memory.cases(small, quick=False) if case.key.kind != "allocate"}
        count = largest["sum"].key.working_bytes // 4
        assert largest["sum"].prepare()() == count
        copied, result = largest["copy"].prepare(), largest["triad"].prepare()()
        assert isinstance(result, torch.Tensor)
        assert torch.all(result == 1 + 0.5)
        assert copied() is not None

    def test_all_sizes_share_one_array_which_is_given_back(self, small: ProbeDevice) -> None:
        streams = [case for case in memory.cases(small, quick=False) if case.key.kind != "allocate"]
        for _ in range(2):
            calls = [case.prepare() for case in streams]
            arrays = {weakref.ref(call.array) for call in calls if isinstance(call, memory._Call)}
            assert len(arrays) == 1
            del calls
            assert arrays.pop()() is None


def _touched_bytes(kind: str, call: Callable[[], object]) -> int:
    """By the sizes of the tensors that a call holds or gives."""
    if kind == "allocate":
        made = call()
        assert isinstance(made, torch.Tensor)
        return made.nbytes
    assert isinstance(call, memory._Call)
    own = getattr(call.func, "__self__", None)
    held = [own, *call.args, *call.keywords.values()]
    return sum(value.nbytes for value in held if isinstance(value, torch.Tensor))


class TestPoints:
    def test_a_pass_on_a_small_device_gives_every_kind(self, small: ProbeDevice) -> None:
        samples: Samples[Movement] = Samples()
        effort = TimingBudget(rounds=2, sample_ns=100_000, call_limit_ns=10**9)
        take(memory.cases(small, quick=True), small, effort, samples)
        found = memory.points(samples, noise=0.1)
        assert {point.kind for point in found} == {"copy", "triad", "sum", "allocate"}
        assert samples.declined == {}
        assert all(point.time_ns.low < point.time_ns.value < point.time_ns.high for point in found)

    def test_one_that_cannot_be_measured_is_left_out_and_named(self, small: ProbeDevice) -> None:
        def fail() -> Callable[[], object]:
            raise MemoryError("no room")

        cases = memory.cases(small, quick=True)
        broken: list[BenchmarkCase[Movement]] = [
            replace(case, prepare=fail) if case.key.kind == "sum" else case for case in cases
        ]
        samples: Samples[Movement] = Samples()
        take(broken, small, TimingBudget(rounds=1, sample_ns=1000, call_limit_ns=10**9), samples)
        assert "sum" not in {point.kind for point in memory.points(samples, noise=0.0)}
        assert set(samples.declined.values()) == {"no room"}


def _point(kind: str, working_bytes: int, bytes_per_ns: float) -> BandwidthPoint:
    time_ns = working_bytes / bytes_per_ns
    return BandwidthPoint(
        kind=kind,
        working_bytes=working_bytes,
        moved_bytes=working_bytes,
        time_ns=Estimate(value=time_ns, low=time_ns * 0.9, high=time_ns * 1.1, samples=9),
    )


class TestBandwidthOfMemory:
    def test_it_is_the_fastest_stream_beyond_the_caches(self) -> None:
        points = (
            _point("copy", _MIB, 80.0),
            _point("copy", 600 * _MIB, 10.0),
            _point("triad", _MIB, 90.0),
            _point("triad", 600 * _MIB, 12.0),
            _point("sum", 600 * _MIB, 11.0),
        )
        found = memory.memory_bytes_per_s(points)
        assert found is not None
        assert found.value == pytest.approx(12e9)
        assert found.low == pytest.approx(12e9 / 1.1)
        assert found.high == pytest.approx(12e9 / 0.9)

    def test_without_streams_there_is_none(self) -> None:
        assert memory.memory_bytes_per_s((_point("allocate", _MIB, 1.0),)) is None
        only_read = memory.memory_bytes_per_s((_point("sum", _MIB, 1.0),))
        assert only_read is not None


@pytest.mark.parametrize(("caches", "declined"), [(_MIB // 2, set()), (_MIB, {"beyond"})])
def test_arrays_that_caches_hold_are_not_taken_for_memory(
    small: ProbeDevice, monkeypatch: pytest.MonkeyPatch, caches: int, declined: set[str]
) -> None:
    monkeypatch.setattr(memory, "last_level_bytes", lambda: caches)
    found = [case for case in memory.cases(small, quick=False) if case.key.kind == "beyond"]
    assert {case.key.kind for case in found} == declined
    for case in found:
        with pytest.raises(RuntimeError, match=r"there is room for 1.05 MB, and the caches hold 1.05 MB"):
            case.prepare()
