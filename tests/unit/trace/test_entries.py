"""Files of the cache: only what this user wrote is read, replaced or removed, and room is kept while it grows."""

import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from redline.errors import InputError
from redline.trace import entries
from redline.trace.entries import Entry, holds, load, prune, save, why_unusable

ENTRY = Entry(kind="timelines", schema_version=1, key="a key")
CONTENT = [b"some", b"", b"thing"]
REFUSED = (InputError, OSError)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others, or mount")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "parent" / "cache"


@pytest.fixture
def kept(folder: Path) -> Path:
    save(folder, ENTRY, CONTENT)
    return folder / ENTRY.name


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_what_is_saved_is_what_is_loaded(folder: Path) -> None:
    assert not holds(folder, ENTRY)
    save(folder, ENTRY, CONTENT)
    assert holds(folder, ENTRY)
    assert bytes(load(folder, ENTRY)) == b"something"
    assert names(folder) == [ENTRY.name]


def test_saving_again_replaces(kept: Path) -> None:
    save(kept.parent, ENTRY, [b"new"])
    assert bytes(load(kept.parent, ENTRY)) == b"new"
    assert names(kept.parent) == [ENTRY.name]


def test_folder_and_entries_are_for_their_owner_only(kept: Path) -> None:
    assert [stat.S_IMODE(path.stat().st_mode) for path in (kept.parent, kept)] == [0o700, 0o600]


@pytest.mark.parametrize(
    "other",
    [
        Entry(kind="timelines", schema_version=1, key="another"),
        Entry(kind="timelines", schema_version=2, key="a key"),
        Entry(kind="digests", schema_version=1, key="a key"),
    ],
    ids=["key", "schema", "kind"],
)
def test_what_was_made_of_something_else_is_refused(kept: Path, other: Entry) -> None:
    kept.rename(kept.parent / other.name)
    with pytest.raises(InputError):
        load(kept.parent, other)


def test_a_key_of_odd_bytes(folder: Path) -> None:
    odd = Entry(kind="timelines", schema_version=1, key=os.fsdecode(b"\xff.json"))
    save(folder, odd, CONTENT)
    assert bytes(load(folder, odd)) == b"something"


def test_an_entry_cut_at_any_byte_is_refused(kept: Path) -> None:
    whole = kept.read_bytes()
    for size in range(len(whole)):
        kept.write_bytes(whole[:size])
        with pytest.raises(InputError):
            load(kept.parent, ENTRY)


def test_a_flipped_bit_is_refused(kept: Path) -> None:
    whole = kept.read_bytes()
    for place in range(len(whole)):
        kept.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        with pytest.raises(InputError):
            load(kept.parent, ENTRY)


# --- who may write ----------------------------------------------------------------------------------------------------


def test_a_link_in_the_place_of_an_entry_is_neither_read_nor_written_through(kept: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    kept.rename(precious)  # even one that would pass for an entry
    kept.symlink_to(precious)
    before = precious.read_bytes(), precious.stat().st_mtime_ns
    assert not holds(kept.parent, ENTRY)
    for attempt in (lambda: load(kept.parent, ENTRY), lambda: save(kept.parent, ENTRY, [b"new"])):
        with pytest.raises(REFUSED):
            attempt()
    prune(kept.parent, limit_bytes=0)
    assert (precious.read_bytes(), precious.stat().st_mtime_ns) == before
    assert kept.is_symlink()


def test_a_pipe_in_the_place_of_an_entry_holds_nobody_up(folder: Path) -> None:
    folder.mkdir(parents=True)
    os.mkfifo(folder / ENTRY.name)
    for attempt in (lambda: load(folder, ENTRY), lambda: save(folder, ENTRY, CONTENT)):
        with pytest.raises(REFUSED):
            attempt()
    prune(folder, limit_bytes=0)
    assert stat.S_ISFIFO((folder / ENTRY.name).stat().st_mode)


@as_root
def test_an_entry_of_another_user_is_left_alone(kept: Path) -> None:
    os.chown(kept, 4242, 4242)
    before = kept.stat()
    assert not holds(kept.parent, ENTRY)
    for attempt in (lambda: load(kept.parent, ENTRY), lambda: save(kept.parent, ENTRY, [b"new"])):
        with pytest.raises(InputError):
            attempt()
    prune(kept.parent, limit_bytes=0)
    assert kept.stat() == before


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o1777])
def test_a_folder_that_others_can_write_is_not_used(kept: Path, mode: int) -> None:
    kept.parent.chmod(mode)
    assert why_unusable(kept.parent) == (
        f"others may write in {kept.parent}; forbid it (chmod go-w) or name another in REDLINE_CACHE"
    )
    for attempt in (lambda: load(kept.parent, ENTRY), lambda: save(kept.parent, ENTRY, [b"new"])):
        with pytest.raises(InputError):
            attempt()
    prune(kept.parent, limit_bytes=0)
    kept.parent.chmod(0o700)
    assert bytes(load(kept.parent, ENTRY)) == b"something"


@as_root
def test_a_folder_of_another_user_is_not_used(kept: Path) -> None:
    os.chown(kept.parent, 4242, 4242)
    assert why_unusable(kept.parent).startswith(f"{kept.parent} belongs to another user")
    with pytest.raises(InputError):
        save(kept.parent, ENTRY, CONTENT)


def test_a_folder_that_is_a_link_is_not_used(kept: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(kept.parent)
    assert why_unusable(link) == f"{link} is a link; name what it points at"
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        load(link, ENTRY)


def test_a_folder_that_is_fine_or_not_there_yet_needs_no_words(kept: Path, tmp_path: Path) -> None:
    assert why_unusable(kept.parent) == ""
    assert why_unusable(tmp_path / "none") == ""
    assert why_unusable(kept) == f"{kept}: Not a directory"


# --- room -------------------------------------------------------------------------------------------------------------


def entry(number: int) -> Entry:
    return Entry(kind="digests" if number % 2 else "timelines", schema_version=1, key=str(number))


def filled(folder: Path, ages: list[int], size: int = 1000) -> list[str]:
    for number, age in enumerate(ages):
        save(folder, entry(number), [bytes(size)])
        os.utime(folder / entry(number).name, (0, 10**9 - age))
    return [entry(number).name for number in range(len(ages))]


def used_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_what_was_used_longest_ago_goes_first(folder: Path) -> None:
    made = filled(folder, [30, 10, 40, 20])
    prune(folder, limit_bytes=used_bytes(folder) // 2 + 100)
    assert names(folder) == sorted([made[1], made[3]])


def test_what_fits_stays(folder: Path) -> None:
    made = filled(folder, [30, 10])
    prune(folder, limit_bytes=used_bytes(folder))
    assert names(folder) == sorted(made)


def test_use_is_what_was_loaded_not_what_the_file_system_noted(folder: Path) -> None:
    made = filled(folder, [30, 10])
    load(folder, entry(0))
    prune(folder, limit_bytes=used_bytes(folder) - 1)
    assert names(folder) == [made[0]]


def test_the_limit_holds_after_every_entry(folder: Path) -> None:
    for number in range(20):
        save(folder, entry(number), [bytes(1000)], limit_bytes=5000)
        assert used_bytes(folder) <= 5000
    assert names(folder) == sorted(entry(number).name for number in range(16, 20))


def test_one_that_is_larger_than_all_room_moves_nobody(folder: Path) -> None:
    made = filled(folder, [30, 10])
    with pytest.raises(InputError, match="more than the cache may hold"):
        save(folder, entry(5), [bytes(10_000)], limit_bytes=5000)
    assert names(folder) == sorted(made)


def test_what_others_are_writing_counts(folder: Path) -> None:
    filled(folder, [30, 10])
    part = folder / f"{entry(7).name}.0123abcd.part"
    part.touch()
    os.truncate(part, 3000)
    save(folder, entry(5), [bytes(1000)], limit_bytes=5000)
    assert names(folder) == sorted([entry(5).name, part.name])


def test_leftovers_of_killed_writers_go_when_they_are_old(folder: Path) -> None:
    filled(folder, [30])
    old, new = (folder / f"{entry(7).name}.0123abc{digit}.part" for digit in "01")
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, time.time() - 2 * entries.LEFT_BEHIND_S))
    prune(folder)
    assert names(folder) == sorted([entry(0).name, new.name])


def test_files_of_other_names_are_left_alone(folder: Path) -> None:
    folder.mkdir(parents=True)
    others = ["precious.txt", "precious.timelines", "my.part", f"{ENTRY.name}.bak", f"{ENTRY.name}.0123abcd.part2"]
    for name in others:
        (folder / name).write_bytes(bytes(100))
        os.utime(folder / name, (0, 0))
    prune(folder, limit_bytes=0)
    assert names(folder) == sorted(others)


@pytest.mark.parametrize("missing", [None, "no such folder"])
def test_no_cache_needs_no_pruning(tmp_path: Path, missing: str | None) -> None:
    prune(None if missing is None else tmp_path / missing)
    assert list(tmp_path.iterdir()) == []


# --- what can happen while it is written ------------------------------------------------------------------------------


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_keeps_what_there_was(tiny_disk: Path) -> None:
    save(tiny_disk, ENTRY, CONTENT)
    for other in (ENTRY, entry(1)):
        with pytest.raises(OSError, match="No space left"):
            save(tiny_disk, other, [bytes(1000)] * 100)
    assert names(tiny_disk) == [ENTRY.name]
    assert bytes(load(tiny_disk, ENTRY)) == b"something"


def test_a_limit_on_the_size_of_files_keeps_what_there_was(kept: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            save(kept.parent, ENTRY, [bytes(100_000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(kept.parent) == [ENTRY.name]
    assert bytes(load(kept.parent, ENTRY)) == b"something"


WRITER = """
import sys
from pathlib import Path
from redline.trace.entries import Entry, save
print("ready", flush=True)
for number in range(10**9):
    mine = bytes([number % 251]) * 1_000_000
    save(Path(sys.argv[1]), Entry(kind="timelines", schema_version=1, key=sys.argv[2]), [mine] * 4)
"""


def writer(folder: Path, key: str = ENTRY.key) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(folder), key], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def killed(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def assert_whole(content: memoryview) -> None:
    assert len(content) == 4_000_000
    assert bytes(content) == bytes(content[:1]) * len(content)


def test_a_writer_killed_at_any_moment_leaves_whole_entries_and_nothing_for_ever(folder: Path) -> None:
    for round_ in range(5):
        process = writer(folder)
        time.sleep(0.02 * round_)
        killed(process)
        with suppress(FileNotFoundError):
            assert_whole(load(folder, ENTRY))
    for path in folder.glob("*.part"):
        os.utime(path, (0, 0))
    prune(folder)
    assert names(folder) == [ENTRY.name]


def test_two_writers_of_one_entry_and_a_reader(folder: Path) -> None:
    writers = [writer(folder), writer(folder)]
    try:
        while not holds(folder, ENTRY):
            time.sleep(0.01)
        for _ in range(30):
            assert_whole(load(folder, ENTRY))
    finally:
        for process in writers:
            killed(process)


def test_two_writers_keep_the_limit_together(folder: Path) -> None:
    """Reserved before written: never more on the disk than the limit, whoever looks when."""
    limit = 20_000_000
    code = WRITER.replace("key=sys.argv[2]), [mine] * 4)", f"key=sys.argv[2] + str(number % 9)), [mine] * 4, {limit})")
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(folder), key], stderr=subprocess.PIPE) for key in ("a", "b")
    ]
    try:
        until = time.monotonic() + 60
        while not folder.exists() or len(names(folder)) < 4:
            assert time.monotonic() < until
            time.sleep(0.01)
        for _ in range(50):
            assert _on_disk(folder) <= limit + 4_100_000
            time.sleep(0.01)
        assert [process.poll() for process in running] == [None, None]
    finally:
        for process in running:
            killed(process)


def _on_disk(folder: Path) -> int:
    total = 0
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            total += min(path.stat().st_blocks * 512, path.stat().st_size)
    return total
