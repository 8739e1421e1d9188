"""Collectives among real processes: right results, planted slow ranks and slow links, and failures."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from redline.calibration.calibration_record import Collectives
from redline.calibration.collectives.collective_law import OPERATIONS
from redline.calibration.collectives.start import RESULT, failures, measure_collectives, show_collectives
from redline.errors import InputError, UsageError
from tests.support.command_line import ROOT
from tests.support.running import PROGRAMS, TORCHRUN, Started, finished, processes_that_name, started

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
WORKER = ("-m", "redline.calibration.collectives.worker")
SIZED = set(OPERATIONS) - {"barrier"}


@pytest.fixture(autouse=True)
def _where_redline_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")


def result(folder: Path) -> Collectives:
    return msgspec.json.decode((folder / RESULT).read_bytes(), type=Collectives)


# --- results ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranks", "groups"), [(2, {"world": 2}), pytest.param(4, {"world": 4, "pair": 2}, marks=pytest.mark.slow)]
)
def test_every_result_is_what_the_textbook_says(ranks: int, groups: dict[str, int]) -> None:
    found = measure_collectives(["--nproc-per-node", str(ranks)], quick=True, seconds=1)
    assert found is not None
    assert (found.backend, found.world, found.hosts) == ("gloo", ranks, 1)
    assert all(point.correct for point in found.points)
    assert {(point.operation, point.group, point.ranks) for point in found.points} == {
        (operation, group, size) for operation in OPERATIONS for group, size in groups.items()
    }
    largest = {point.operation: point.size_bytes for point in found.points if point.group == "world"}
    assert {size for operation, size in largest.items() if operation in SIZED} == {4 << 20}
    assert all(0 < point.fastest_ns <= point.time_ns.value for point in found.points)
    assert {law.operation for law in found.laws if law.group == "world"} == SIZED
    assert [speed.rank for speed in found.ranks] == list(range(ranks))
    is_crowded = ranks > len(os.sched_getaffinity(0))
    assert any(one.what == "times without waiting for a processor" for one in found.declined) == is_crowded
    assert [(pair.first, pair.second) for pair in found.pairs] == [
        (first, second) for first in range(ranks) for second in range(first + 1, ranks)
    ]


def test_ranks_that_do_not_end_in_time_are_ended() -> None:
    with pytest.raises(
        InputError, match=r"they did not end within 1 s\ngive more with `budget=\.\.\.`, or leave collectives out"
    ):
        measure_collectives(["--nproc-per-node", "2"], quick=True, left_s=1.0)


def test_what_operations_do_is_shown() -> None:
    shown = show_collectives(["--nproc-per-node", "2"])
    assert shown is not None
    assert [one.operation for one in shown] == list(OPERATIONS)
    assert all(one.correct for one in shown)
    by_name = {one.operation: (one.before, one.after) for one in shown}
    assert by_name["all_reduce"] == (((0, 1, 2, 3), (10, 11, 12, 13)), ((10, 12, 14, 16),) * 2)
    assert by_name["reduce"][1] == ((10, 12, 14, 16), None)
    assert by_name["gather"] == (((0, 1), (10, 11)), ((0, 1, 10, 11), ()))
    assert by_name["all_to_all"] == (((0, 1, 2, 3), (10, 11, 12, 13)), ((0, 1, 10, 11), (2, 3, 12, 13)))
    assert by_name["barrier"] == (((), ()), ((), ()))


# --- a slow rank ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def busy_core(number: int) -> Iterator[None]:
    """Loops in sessions of their own: the scheduler shares a core fairly among sessions, not among processes.

    So many that the rank there is the slow one, whatever other tests do on the other core.
    """
    code = f"import os\nos.sched_setaffinity(0, {{sorted(os.sched_getaffinity(0))[{number}]}})\nwhile True: pass"
    loops = [subprocess.Popen([sys.executable, "-c", code], start_new_session=True) for _ in range(8)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def slow_ranks(folder: Path) -> list[int]:
    folder.mkdir()
    program = PROGRAMS / "pinned_collectives.py"
    run = finished(folder, *TORCHRUN, "--nproc-per-node", 2, program, "--folder", folder, "--seconds", 0, "--quick")
    assert run.process.returncode == 0, run.output
    return [speed.rank for speed in result(folder).ranks if speed.slow]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.slow
@pytest.mark.parametrize("is_busy", [True, False])
def test_a_rank_whose_core_is_busy_is_named_and_nobody_otherwise(is_busy: bool, tmp_path: Path) -> None:
    """What else runs may keep either core busy: what counts has to be seen once in five times.

    tests/unit/calibration/collectives/test_health.py names slow ranks from samples, in CI too.
    """
    expected = [1] if is_busy else []
    with busy_core(1) if is_busy else contextlib.nullcontext():
        assert any(slow_ranks(tmp_path / str(turn)) == expected for turn in range(5))


# --- a slow link ------------------------------------------------------------------------------------------------------


def ip(*words: object, of: str = "ip") -> None:
    subprocess.run([of, *map(str, words)], check=True, capture_output=True, timeout=60)


@contextlib.contextmanager
def three_hosts(name: str) -> Iterator[list[str]]:
    """Network namespaces, each with an address of its own, and a wire between every two of them."""
    hosts = [f"{name}{number}" for number in range(3)]
    try:
        for number, host in enumerate(hosts):
            ip("netns", "add", host)
            ip("-n", host, "link", "set", "lo", "up")
            ip("-n", host, "link", "add", "own", "type", "veth", "peer", "name", "unused")
            ip("-n", host, "address", "add", f"10.9.{number}.1/32", "dev", "own")
            for device in ("own", "unused"):
                ip("-n", host, "link", "set", device, "up")
        for first, second in ((0, 1), (0, 2), (1, 2)):
            ends = (f"to{second}", "type", "veth", "peer", "name", f"to{first}", "netns", hosts[second])
            ip("-n", hosts[first], "link", "add", *ends)
            for here, there in ((first, second), (second, first)):
                ip("-n", hosts[here], "link", "set", f"to{there}", "up")
                way = (f"10.9.{there}.1/32", "dev", f"to{there}", "src", f"10.9.{here}.1")
                ip("-n", hosts[here], "route", "add", *way)
        yield hosts
    finally:
        for host in hosts:
            with contextlib.suppress(subprocess.SubprocessError):
                ip("netns", "delete", host)


def slow_link(hosts: list[str], first: int, second: int) -> None:
    """100 Mbit/s both ways."""
    limit = ("root", "tbf", "rate", "100mbit", "burst", "32kb", "latency", "50ms")
    for here, there in ((first, second), (second, first)):
        ip("-n", hosts[here], "qdisc", "add", "dev", f"to{there}", *limit, of="tc")


def test_a_slow_link_between_two_of_three_hosts_is_named(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        try:
            hosts = stack.enter_context(three_hosts(f"redline{os.getpid()}-"))
            slow_link(hosts, 1, 2)
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"network namespaces with a slow link cannot be made here: {error}")
        where = ("--nnodes", 3, "--nproc-per-node", 1, "--master-addr", "10.9.0.1", "--master-port", 29500)
        runs: list[Started] = []
        for number, host in enumerate(hosts):
            torchrun = ("ip", "netns", "exec", host, *TORCHRUN[:-1], *where, "--node-rank", number)
            ours = (*WORKER, "--folder", tmp_path, "--seconds", 0, "--quick")
            environment = {"GLOO_SOCKET_IFNAME": "own", "TP_SOCKET_IFNAME": "own"}
            runs.append(stack.enter_context(started(tmp_path, *torchrun, *ours, environment=environment)))
        codes = [run.wait() for run in runs]
        assert codes == [0, 0, 0], [run.output for run in runs]
    found = result(tmp_path)
    assert (found.world, found.hosts) == (3, 3)
    slowest, *others = sorted(found.pairs, key=lambda pair: pair.bandwidth_ratio)
    assert (slowest.first, slowest.second, slowest.level, slowest.slow) == (1, 2, "across", True)
    # What else runs may make any link seem slow, but none as slow as this one.
    assert slowest.bandwidth_ratio < 0.3
    assert all(pair.bandwidth_ratio > 2 * slowest.bandwidth_ratio for pair in others)


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_rank_is_not_enough() -> None:
    with pytest.raises(UsageError, match="calibrate: collectives need at least two ranks: give --nproc-per-node 2"):
        measure_collectives(["--nproc-per-node", "1"], quick=True)


def test_an_option_that_torchrun_does_not_know(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match=r"torchrun failed\n.*--nonsense"):
        measure_collectives(["--nproc-per-node", "2", "--nonsense", "3"], quick=True)
    assert "Traceback" not in capfd.readouterr().err


def test_ranks_that_cannot_find_each_other(tmp_path: Path) -> None:
    """Of two ranks, only one is started."""
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}
    run = finished(
        tmp_path, sys.executable, *WORKER, "--folder", tmp_path, "--join-seconds", 1, environment=environment
    )
    assert run.process.returncode == 1
    (failure,) = failures(tmp_path)
    assert failure.line == "the ranks did not find each other within 1 s: is the network between them open?"


@pytest.mark.slow
def test_ranks_that_cannot_start_the_process_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nowhere")
    with pytest.raises(InputError, match=r"could not be measured: rank \d failed\n.*nowhere"):
        measure_collectives(["--nproc-per-node", "2"], quick=True)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupt_ends_the_ranks(tmp_path: Path, number: signal.Signals) -> None:
    code = (
        "from redline.calibration.collectives.start import *;"
        "measure_collectives(['--nproc-per-node', '2'], quick=False)"
    )
    environment = {"TMPDIR": str(tmp_path)}  # so that its processes can be told from those of others
    with started(tmp_path, sys.executable, "-c", code, environment=environment) as run:
        run.wait_until(lambda: len(processes_that_name(f"--folder {tmp_path}")) >= 3)
        time.sleep(0.5)
        run.process.send_signal(number)
        code_of_end = run.wait()
    assert "KeyboardInterrupt" in run.output or code_of_end == 128 + number
    assert not processes_that_name(f"--folder {tmp_path}")
    assert not list(tmp_path.glob("redline-*"))
