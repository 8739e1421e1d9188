"""Bytes come out of any wrapper, whole or up to the damage; bombs and tricks of archives do no harm."""

import gzip
import io
import os
import random
import subprocess
import sys
import tarfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard

from redline.errors import InputError, NotATraceError, RefusedInputError
from redline.timeline.problems import Reason
from redline.trace import inflate
from redline.trace.inflate import Limits, TraceContent, contents

TEXT = b'{"traceEvents": [' + b", ".join(b'{"ph": "X", "name": "op %d"}' % number for number in range(40)) + b"]}"
NOISE = random.Random(0).randbytes(2_000_000)  # does not compress, so places in it survive compression
READ_SIZE = 4096


def read(content: TraceContent) -> bytes:
    return b"".join(iter(lambda: content.stream.read(READ_SIZE), b""))


def members_of(path: Path, limits: Limits | None = None) -> dict[str, bytes]:
    """Each document of a file by its place in the archive, read to the end."""
    return {content.member: read(content) for content in contents(path, limits)}


def inflated(data: bytes, folder: Path, limits: Limits | None = None) -> tuple[bytes, set[Reason]]:
    """The only document in a file of these bytes, and what was noticed while reading it."""
    path = folder / "trace.json"
    path.write_bytes(data)
    ((text, reasons),) = [
        (read(content), {problem.reason for problem in content.log.freeze()}) for content in contents(path, limits)
    ]
    return text, reasons


def tar_of(*members: tuple[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def same(data: bytes) -> bytes:
    return data


# --- what is whole ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outer", [same, gzip.compress, zstandard.compress])
@pytest.mark.parametrize("inner", [same, gzip.compress, zstandard.compress])
def test_wrappers_are_told_by_content_whatever_the_name(
    tmp_path: Path, inner: Callable[[bytes], bytes], outer: Callable[[bytes], bytes]
) -> None:
    assert inflated(outer(inner(TEXT)), tmp_path) == (TEXT, set())


@pytest.mark.parametrize("outer", [same, gzip.compress, zstandard.compress])
@pytest.mark.parametrize("inner", [same, gzip.compress, zstandard.compress])
def test_every_json_member_of_an_archive_is_a_document(
    tmp_path: Path, inner: Callable[[bytes], bytes], outer: Callable[[bytes], bytes]
) -> None:
    packed = tar_of(("a/rank0.json", inner(TEXT)), ("notes.txt", b"not read"), ("a/rank1.json.gz", inner(TEXT[::-1])))
    path = tmp_path / "job.tar.gz"
    path.write_bytes(outer(packed))
    assert members_of(path) == {"a/rank0.json": TEXT, "a/rank1.json.gz": TEXT[::-1]}
    assert [content.name for content in contents(path)] == [f"{path}!a/rank0.json", f"{path}!a/rank1.json.gz"]


def test_a_document_of_an_archive_may_be_left_unread(tmp_path: Path) -> None:
    path = tmp_path / "job.tar"
    path.write_bytes(tar_of(("r0.json", NOISE[:50_000]), ("r1.json", TEXT)))
    first, second = "", b""
    for content in contents(path):
        if content.member == "r0.json":
            first = content.member
        else:
            second = read(content)
    assert (first, second) == ("r0.json", TEXT)


def test_gzip_members_follow_each_other(tmp_path: Path) -> None:
    parts = [TEXT[first:last] for first, last in pairwise([0, 1, 500, 501, len(TEXT)])]
    assert inflated(b"".join(map(gzip.compress, parts)), tmp_path) == (TEXT, set())


def test_zstd_frames_follow_each_other(tmp_path: Path) -> None:
    assert inflated(zstandard.compress(TEXT[:99]) + zstandard.compress(TEXT[99:]), tmp_path) == (TEXT, set())


def test_gzip_members_may_begin_anywhere_in_a_piece_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = gzip.compress(TEXT[:300]) + gzip.compress(TEXT[300:])
    for size in range(1, 60):
        monkeypatch.setattr(inflate, "FEED_BYTES", size)
        assert inflated(data, tmp_path) == (TEXT, set())


def test_a_large_file_comes_out_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "large.gz"
    path.write_bytes(gzip.compress(bytes(10_000_000), 1))
    limits = Limits(ratio=10**6)
    sizes = [len(content.stream.read(1 << 20)) for content in contents(path, limits)]
    assert max(sizes) <= 1 << 20


# --- what is damaged --------------------------------------------------------------------------------------------------


def test_a_gzip_file_cut_at_any_byte_gives_what_is_there(tmp_path: Path) -> None:
    whole = gzip.compress(TEXT)
    for size in range(2, len(whole)):
        text, reasons = inflated(whole[:size], tmp_path)
        assert TEXT.startswith(text)
        assert reasons == {Reason.TRUNCATED_FILE}


def test_bytes_after_the_compressed_data_are_noticed(tmp_path: Path) -> None:
    assert inflated(gzip.compress(TEXT) + b"garbage", tmp_path) == (TEXT, {Reason.TRAILING_CONTENT})


def test_padding_after_the_compressed_data_is_fine(tmp_path: Path) -> None:
    assert inflated(gzip.compress(TEXT) + bytes(5000), tmp_path) == (TEXT, set())


def test_bytes_after_a_zstd_frame_cost_nothing(tmp_path: Path) -> None:
    text, reasons = inflated(zstandard.compress(TEXT) + b"garbage", tmp_path)
    assert text == TEXT
    assert reasons <= {Reason.TRAILING_CONTENT, Reason.TRUNCATED_FILE}
    assert reasons


def test_a_wrong_checksum_costs_nothing(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(TEXT))
    whole[-6] ^= 0xFF
    assert inflated(bytes(whole), tmp_path) == (TEXT, {Reason.TRUNCATED_FILE})


def test_a_broken_gzip_member_leaves_those_before_it(tmp_path: Path) -> None:
    broken = bytearray(gzip.compress(TEXT))
    broken[0:4] = b"\x1f\x8b\x07\x00"  # no such method of compression
    assert inflated(gzip.compress(TEXT) + bytes(broken), tmp_path) == (TEXT, {Reason.TRUNCATED_FILE})


def test_a_broken_spot_in_gzip_costs_little_of_what_is_before_it(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(NOISE))
    spot = len(whole) * 3 // 4
    whole[spot : spot + 64] = bytes(64)
    text, reasons = inflated(bytes(whole), tmp_path)
    safe = spot - inflate.PIECE_BYTES - inflate.FEED_BYTES
    assert text[:safe] == NOISE[:safe]
    assert reasons == {Reason.TRUNCATED_FILE}


def test_a_cut_zstd_file_gives_its_whole_blocks(tmp_path: Path) -> None:
    whole = zstandard.compress(NOISE)
    text, _ = inflated(whole[: len(whole) // 2], tmp_path)
    assert len(text) > 500_000
    assert NOISE.startswith(text)


def test_a_broken_zstd_file_is_noticed(tmp_path: Path) -> None:
    whole = bytearray(zstandard.compress(TEXT * 100))
    whole[len(whole) // 2 :] = b"\xff" * (len(whole) - len(whole) // 2)
    assert inflated(bytes(whole), tmp_path)[1] == {Reason.TRUNCATED_FILE}


def test_a_broken_spot_in_zstd_costs_little_of_what_is_before_it(tmp_path: Path) -> None:
    numbers = b",".join(b"%d" % number for number in range(300_000))
    whole = bytearray(zstandard.compress(numbers))
    spot = len(whole) * 3 // 4
    whole[spot:] = b"\xff" * (len(whole) - spot)
    text, reasons = inflated(bytes(whole), tmp_path)
    safe = len(numbers) * 3 // 10
    assert text[:safe] == numbers[:safe]
    assert reasons == {Reason.TRUNCATED_FILE}


@pytest.mark.parametrize("lost", [100, 100_000], ids=["late", "early"])
@pytest.mark.parametrize("wrap", [same, gzip.compress], ids=["tar", "tar.gz"])
def test_a_cut_archive_gives_what_is_there(tmp_path: Path, wrap: Callable[[bytes], bytes], lost: int) -> None:
    path = tmp_path / "job.tar"
    whole = tar_of(("rank0.json", TEXT), ("rank1.json", NOISE[:300_000]))
    end = whole.index(NOISE[299_990:300_000]) + 10
    path.write_bytes(wrap(whole[:end])[:-lost])
    found: dict[str, bytes] = {}
    with pytest.raises(InputError, match="a damaged tar archive"):
        for content in contents(path):
            found[content.member] = read(content)
    assert found["rank0.json"] == TEXT
    assert len(found["rank1.json"]) > 300_000 - lost - inflate.FEED_BYTES
    assert NOISE.startswith(found["rank1.json"])


# --- what archives may try --------------------------------------------------------------------------------------------


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


def test_members_are_streamed_and_never_touch_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("/absolute.json", "../above.json", "a/../../far.json", "plain.json"):
            made = entry(name)
            made.size = len(TEXT)
            archive.addfile(made, io.BytesIO(TEXT))
        archive.addfile(entry("soft.json", tarfile.SYMTYPE, "/etc/passwd"))
        archive.addfile(entry("hard.json", tarfile.LNKTYPE, "plain.json"))
        archive.addfile(entry("pipe.json", tarfile.FIFOTYPE))
        archive.addfile(entry("disk.json", tarfile.BLKTYPE))
        archive.addfile(entry("folder.json", tarfile.DIRTYPE))
    work = tmp_path / "a" / "b"
    work.mkdir(parents=True)
    (work / "job.tar").write_bytes(packed.getvalue())
    monkeypatch.chdir(work)
    found = members_of(Path("job.tar"))
    assert list(found) == ["/absolute.json", "../above.json", "a/../../far.json", "plain.json"]
    assert set(found.values()) == {TEXT}
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "b", "job.tar"]
    assert not Path("/absolute.json").exists()


def test_an_archive_without_any_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "job.tar"
    path.write_bytes(tar_of(("notes.txt", b"hello")))
    with pytest.raises(NotATraceError) as caught:
        members_of(path)
    assert str(caught.value) == f"{path}: a tar archive without any .json member."


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "job.tar"
    damaged = bytearray(tar_of(("rank0.json", TEXT)))
    damaged[10] ^= 0xFF  # inside the first header, whose checksum now fails
    path.write_bytes(bytes(damaged))
    with pytest.raises(InputError, match=r"job\.tar: a damaged tar archive, read up to member 0 \(.+\)\.$"):
        members_of(path)


def test_wrappers_are_opened_three_deep_and_no_deeper(tmp_path: Path) -> None:
    inner = gzip.compress(TEXT)
    deep = gzip.compress(tar_of(("a.json", inner)))
    path = tmp_path / "deep"
    path.write_bytes(deep)
    assert members_of(path) == {"a.json": TEXT}
    path.write_bytes(gzip.compress(deep))
    assert members_of(path) == {"a.json": inner}


def test_an_exclamation_mark_in_the_path_makes_no_archive(tmp_path: Path) -> None:
    folder = tmp_path / "wow!"
    folder.mkdir()
    (folder / "trace.json").write_bytes(TEXT)
    assert members_of(folder / "trace.json") == {"": TEXT}


# --- limits -----------------------------------------------------------------------------------------------------------

ADVICE = "If it is a real trace, inflate it first and give Redline the plain file."


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_a_file_that_inflates_too_far_is_refused(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "b.gz"
    path.write_bytes(compress(NOISE))
    with pytest.raises(RefusedInputError) as caught:
        members_of(path, Limits(inflated_bytes=1_500_000))
    assert str(caught.value) == f"{path}: inflates to more than 1.50 MB; not read.\n{ADVICE}"
    assert members_of(path, Limits(inflated_bytes=len(NOISE))) == {"": NOISE}


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_a_file_that_inflates_too_many_times_is_refused(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "b.gz"
    path.write_bytes(compress(bytes(3_000_000)))
    with pytest.raises(RefusedInputError) as caught:
        members_of(path, Limits(ratio_from_bytes=2_000_000))
    assert str(caught.value) == f"{path}: inflates more than 200 times, as no trace does (a bomb?); not read.\n{ADVICE}"


def test_a_small_file_may_compress_absurdly_well(tmp_path: Path) -> None:
    assert inflated(gzip.compress(bytes(3_000_000)), tmp_path) == (bytes(3_000_000), set())


def test_limits_hold_across_the_members_of_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    path.write_bytes(gzip.compress(tar_of(*((f"{number}.json", bytes(1_000_000)) for number in range(8)))))
    with pytest.raises(RefusedInputError, match="inflates more than 200 times"):
        members_of(path, Limits(ratio_from_bytes=5_000_000))


BLANK = b" " * 1_000_000  # harmless JSON: nothing but the limits stops a reader


def blanks_gz(size_mb: int) -> bytes:
    return gzip.compress(BLANK) * size_mb


def blanks_zst(size_mb: int) -> bytes:
    return zstandard.compress(BLANK) * size_mb


def tar_of_blanks(size_mb: int) -> bytes:
    """A gzip of an archive with one member of blanks, made without holding it."""
    made = entry("rank0.json")
    made.size = size_mb * 1_000_000
    return gzip.compress(made.tobuf()) + blanks_gz(size_mb)


def long_name_of_blanks(size_mb: int) -> bytes:
    """An archive whose first header announces a name of this size."""
    made = entry("././@LongLink", tarfile.GNUTYPE_LONGNAME)
    made.size = size_mb * 1_000_000
    return gzip.compress(made.tobuf(tarfile.GNU_FORMAT)) + blanks_gz(size_mb)


def holes(size_mb: int) -> bytes:
    """An archive of 2 kB whose member is said to be a file with a hole of this size after its first words."""
    made = entry("rank0.json", tarfile.GNUTYPE_SPARSE)
    made.size = 512
    header = bytearray(made.tobuf(tarfile.GNU_FORMAT))
    size = b"%011o\0" % (size_mb * 1_000_000)
    header[386:434] = b"%011o\0" % 0 + b"%011o\0" % 512 + size + b"%011o\0" % 0
    header[483:495] = size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + b'{"traceEvents": ['.ljust(512) + bytes(1024)


MEASURE = """
import re, sys, time
from pathlib import Path
from redline.errors import RefusedInputError
from redline.trace.reader import read_file
began = time.process_time()
try:
    read_file(Path(sys.argv[1]))
except RefusedInputError as error:
    peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())  # ru_maxrss is the parent's, too
    print(time.process_time() - began, int(peak[1]) / 1000)
"""


@pytest.mark.parametrize(
    "bomb",
    [
        blanks_gz(2000),
        blanks_zst(2000),
        gzip.compress(blanks_gz(4000)),
        tar_of_blanks(2000),
        long_name_of_blanks(2000),
        holes(60),
    ],
    ids=["gzip", "zstd", "gzip of gzip", "tar", "long name in a tar", "holes in a tar"],
)
def test_a_bomb_is_refused_at_once_and_in_little_memory(tmp_path: Path, bomb: bytes) -> None:
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(bomb)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=False, timeout=180
    )
    assert done.stdout, done.stderr
    seconds, megabytes = map(float, done.stdout.split())
    assert seconds < 1
    assert megabytes < 100


# --- what cannot be opened --------------------------------------------------------------------------------------------


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        members_of(tmp_path / "no.json")
    assert str(caught.value) == f"{tmp_path}/no.json: cannot be opened (No such file or directory)."


def test_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is a folder; give the name of an ordinary file$"):
        members_of(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "secret.json"
    path.touch(mode=0o000)
    with pytest.raises(InputError, match=r"cannot be opened \(Permission denied\)\.$"):
        members_of(path)


def test_a_frame_of_zstd_that_is_to_be_skipped_is(tmp_path: Path) -> None:
    """As pzstd and writers of seekable files put them, before the data or after it."""
    path = tmp_path / "trace.json.zst"
    for number in (0x50, 0x5F):
        skipped = bytes([number]) + b"\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"what?"
        path.write_bytes(skipped + zstandard.compress(b"[1]") + skipped + zstandard.compress(b"[2]") + skipped)
        (content,) = contents(path)
        assert read(content) == b"[1][2]"
        assert content.log.freeze() == ()
