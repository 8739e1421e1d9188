"""Whatever happens to the cache, `redline diagnose` says what it says without one, and touches nobody else's files."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from redline.trace.entries import LEFT_BEHIND_S
from tests.support.traces.synthetic import write_large_file

SECONDS = 120


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traces") / "rank-0.json.gz"
    write_large_file(path, 3_000_000)
    time.sleep(0.05)  # what was written a moment ago is not kept
    return path


@pytest.fixture(scope="module")
def plain(trace: Path) -> str:
    return ended(started(trace, "--no-cache"))


def started(trace: Path, *options: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "redline", "diagnose", str(trace), "--json", "--jobs", "1", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: "subprocess.Popen[str]", remark: str = "") -> str:
    stdout, stderr = process.communicate(timeout=SECONDS)
    remarks = [line for line in stderr.splitlines() if not line.startswith("next:")]
    assert (process.returncode, remarks) == (0, [remark] if remark else [])
    return stdout


def names(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.iterdir())


def test_twice_and_with_links_and_pipes_in_the_place_of_entries(
    trace: Path, plain: str, cache_of_the_test: Path, tmp_path: Path
) -> None:
    assert ended(started(trace)) == plain
    assert names(cache_of_the_test) == [".digests", ".timelines"]
    assert ended(started(trace)) == plain
    precious = tmp_path / "precious"
    precious.write_text("not ours")
    for index, entry in enumerate(sorted(cache_of_the_test.iterdir())):
        entry.unlink()
        if index:
            os.mkfifo(entry)
        else:
            entry.symlink_to(precious)
    assert ended(started(trace)) == plain
    assert precious.read_text() == "not ours"
    assert names(cache_of_the_test) == [".digests", ".timelines"]


def test_two_at_once(trace: Path, plain: str, cache_of_the_test: Path) -> None:
    assert [ended(process) for process in [started(trace), started(trace)]] == [plain, plain]
    assert names(cache_of_the_test) == [".digests", ".timelines"]


def test_killed_in_the_middle(trace: Path, plain: str, cache_of_the_test: Path) -> None:
    """Once while an entry is written, if that moment is met; whatever is left is swept when it is old."""
    for _ in range(3):
        process = started(trace)
        while process.poll() is None and not any(cache_of_the_test.iterdir()):
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    for left in cache_of_the_test.glob("*.part"):
        os.utime(left, (0, time.time() - 2 * LEFT_BEHIND_S))
    assert ended(started(trace)) == plain
    assert names(cache_of_the_test) == [".digests", ".timelines"]


def test_a_folder_that_others_can_write(trace: Path, plain: str, cache_of_the_test: Path) -> None:
    cache_of_the_test.chmod(0o777)
    remark = (
        f"the cache is not used: others may write in {cache_of_the_test}; "
        "forbid it (chmod go-w) or name another in REDLINE_CACHE"
    )
    assert ended(started(trace), remark) == plain
    assert ended(started(trace, "--quiet")) == plain
    assert names(cache_of_the_test) == []


@pytest.fixture
def full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16k,mode=700", "tmpfs", str(place)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    monkeypatch.setenv("REDLINE_CACHE", str(place / "cache"))
    yield place / "cache"
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk(trace: Path, plain: str, full_disk: Path) -> None:
    (full_disk.parent / "filler").write_bytes(bytes(8192))
    assert ended(started(trace)) == plain
    assert names(full_disk) == [".digests"]  # a few kilobytes that fit; nothing of the columns
    assert ended(started(trace)) == plain
