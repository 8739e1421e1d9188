"""Write result files whole or not at all, read those of others with a limit, and check what a file says that it is."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from redline import __version__
from redline.errors import InputError, OutputError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

T = TypeVar("T")
DIGEST_ENDING = ".digest"
_WINDOW = re.compile(r"window-([0-9]+)")
_RESTART = re.compile(r"restart-([0-9]+)")


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """The kind of a file of ours, and how it was made; the first fields of every artifact."""

    kind: str
    schema_version: int
    made_by: str  # the command line or function that made the file
    synthetic: bool = False  # true when any of the content was generated or simulated rather than measured
    redline_version: str = __version__

    def to_dict(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, object], *, where: str = "this file") -> Envelope:
        """The envelope among the fields of `record`; fields of the content are left alone."""
        return cls(
            kind=_field(record, "kind", str, where),
            schema_version=_field(record, "schema_version", int, where),
            made_by=_field(record, "made_by", str, where),
            synthetic=_field(record, "synthetic", bool, where),
            redline_version=_field(record, "redline_version", str, where),
        )


def check_envelope(record: Mapping[str, object], kind: str, max_schema: int, *, where: str = "this file") -> Envelope:
    """The envelope of `record`, once it is of the kind asked for and of a schema that this version can read."""
    envelope = Envelope.from_dict(record, where=where)
    if envelope.kind != kind:
        raise InputError(f"{where} holds a {envelope.kind!r:.60}, not a {kind!r}; give a file of that kind")
    if envelope.schema_version > max_schema:
        raise InputError(
            f"{where} was written by Redline {envelope.redline_version:.40} in schema {envelope.schema_version} of "
            f"{kind!r}; this is Redline {__version__}, which reads up to schema {max_schema}: upgrade it"
        )
    if envelope.schema_version < 1:
        raise InputError(f"{where} has schema version {envelope.schema_version}, which never existed; make it again")
    return envelope


def open_ordinary(path: Path) -> int:
    """A descriptor to read a file by. InputError where it is a device or a pipe, which might never end; OSError where
    it cannot be opened."""
    _refuse_unless_ordinary(path, path.stat().st_mode)  # first: to open a device may already do something to it
    # What was looked at may be another file by now; O_NONBLOCK keeps a pipe, and /proc/kmsg, from waiting for somebody.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        _refuse_unless_ordinary(path, os.fstat(descriptor).st_mode)
    except InputError:
        os.close(descriptor)
        raise
    return descriptor


_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe, as the shell's <(...) is", stat.S_IFSOCK: "a socket"}


def _refuse_unless_ordinary(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "a device")
        raise InputError(f"{path} is {kind}; give the name of an ordinary file")


def read_whole(path: Path, most_bytes: int, what: str) -> bytes:
    """The content of an ordinary file; InputError where it cannot be had, or is too large to be `what`."""
    try:
        with os.fdopen(open_ordinary(path), "rb") as file:
            size = max(os.fstat(file.fileno()).st_size, 1 << 20)  # a read makes room for all that it is asked for
            data = file.read(min(size, most_bytes) + 1) or b""  # None where one would have to wait, as for /proc/kmsg
    except OSError as error:
        raise InputError(f"cannot read {path} as {what}: {error.strerror or error}; check its name") from error
    if len(data) > most_bytes:
        raise InputError(f"{path} is above {most_bytes / 1e6:g} MB, so it is not {what}; give another file")
    return data


@contextmanager
def write_atomic(path: Path, *, force: bool = False) -> Iterator[BinaryIO]:
    """Yield a binary file that becomes `path` when the block ends well, and vanishes when it does not.

    An existing file is replaced only with `force`. Failures to write are OutputErrors; other errors of the block pass.
    """
    refuse_unless_free(path, force=force)
    if isinstance(path, StoredPath):
        with written_here(path, force=force) as part, write_atomic(part) as file:
            yield file
        return
    # A link keeps pointing where it did: what it points at is replaced, not the link.
    target = Path(os.path.realpath(path))
    part = _part_of(target)
    file = io.BufferedWriter(_PartFile(part, path), buffer_size=1 << 20)
    try:
        yield file
        file.flush()
        refuse_unless_free(path, force=force)
        _commit(file.fileno(), part, target, path)
    finally:
        with suppress(OutputError):  # the first failure to write is the one to report
            file.close()
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def written_here(path: Path, *, force: bool = False) -> Iterator[Path]:
    """Yield where on this machine to write what becomes `path` when the block ends well: the path itself, or a file
    that is uploaded then. An existing object is replaced only with `force`; of a local path, the block takes care."""
    if not isinstance(path, StoredPath):
        yield path
        return
    with path.local_part() as part:
        yield part
        refuse_unless_free(path, force=force)
        path.upload(part)


def read_beginning(path: Path, most_bytes: int) -> bytes:
    """The first bytes of an ordinary file; InputError or OSError where there are none to be had."""
    if isinstance(path, StoredPath):
        return path.beginning(most_bytes)
    with os.fdopen(open_ordinary(path), "rb") as file:
        return file.read(most_bytes) or b""  # None where one would have to wait


def _part_of(target: Path) -> Path:
    return target.with_name(f"{target.name[:80]}.{os.urandom(4).hex()}.part")


class _PartFile(io.FileIO):
    """The file under construction; its failures name the file that the user asked for."""

    def __init__(self, part: Path, shown: Path) -> None:
        self._shown = shown
        try:
            # Not tempfile: the result gets the permissions of any new file, not those of a secret.
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except OSError as error:
            raise _output_error(shown, error) from error
        super().__init__(descriptor, "wb")

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise _output_error(self._shown, error) from error


def refuse_unless_free(path: Path, *, force: bool) -> None:
    """Raise OutputError where a file cannot go: on a folder or a device, or without `force` on a file that is no report
    of ours."""
    try:
        if path.is_dir():
            raise OutputError(f"cannot write {path}: it is a folder; give the name of a file")
        # Replacing a device or a pipe by a file would destroy it.
        if path.exists() and not path.is_file():
            raise OutputError(f"cannot write {path}: it is not an ordinary file; give another name")
        if path.exists() and not force and not is_report(path):
            raise OutputError(f"{path} already exists; use `force=True` to replace it, or choose another name")
    except OSError as error:
        raise _output_error(path, error) from error


# What can be made again from its inputs; not what was measured: digests, profiles, records of runs, traces.
_REPORTS = (
    b"diagnosis|inspection|memory|comparison|hardware|training-plan|serving-plan|plan-validation|calibration-comparison"
    b"|lake-answer"
)
_OWN_PAGE = re.compile(rb'<!doctype html>.{1,2000}<meta name="generator" content="Redline ', re.DOTALL)
_OWN_JSON = re.compile(rb'\{\s*"kind": "(?:' + _REPORTS + rb')",.{1,2000}"redline_version": "', re.DOTALL)


def is_report(path: Path) -> bool:
    """True of a page or the JSON of a report that Redline wrote."""
    try:
        head = read_beginning(path, 4096)
    except (InputError, OSError):
        return False
    return bool(_OWN_PAGE.match(head) or _OWN_JSON.match(head))


def refuse_unless_writable(path: Path, *, force: bool) -> None:
    """Raise OutputError where a file could not be written either: said before work that takes minutes, not after."""
    refuse_unless_free(path, force=force)
    if isinstance(path, StoredPath):
        return  # whether a store takes it is known once it has it
    part = _part_of(Path(os.path.realpath(path)))
    _PartFile(part, path).close()
    part.unlink(missing_ok=True)


def _commit(descriptor: int, part: Path, target: Path, shown: Path) -> None:
    try:
        os.fsync(descriptor)
        part.replace(target)
    except OSError as error:
        raise _output_error(shown, error) from error
    with suppress(OSError):  # some network filesystems cannot sync a folder; the file itself is safe
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _output_error(path: Path, error: OSError) -> OutputError:
    folder = path.absolute().parent
    advice = {
        errno.ENOSPC: "the disk is full; free some space or write elsewhere",
        errno.EDQUOT: "your disk quota is used up; free some space or write elsewhere",
        errno.ENOENT: f"the folder {folder} does not exist; create it first"
        if not folder.exists()
        else f"nothing can be created in {folder}; write elsewhere",
        errno.ENOTDIR: f"{folder} is not a folder; give another name",
        errno.EACCES: f"you may not write in {folder}; choose a folder that you own",
        errno.EPERM: f"you may not write in {folder}; choose a folder that you own",
        errno.EROFS: f"{folder} is on a read-only disk; write elsewhere",
        errno.ENAMETOOLONG: "the name is too long; give a shorter one",
    }
    reason = advice.get(error.errno or 0, error.strerror or str(error))
    return OutputError(f"cannot write {path}: {reason}")


def _field(record: Mapping[str, object], name: str, wanted: type[T], where: str) -> T:
    if name not in record:
        raise InputError(
            f"{where} was not written by Redline: it has no field {name!r}; check that it is the right file"
        )
    value = record[name]
    if type(value) is not wanted:
        raise InputError(
            f"{where} is damaged: its field {name!r} is {value!r:.60}, not a {wanted.__name__}; make it again"
        )
    return value


def window_number(name: str) -> int | None:
    """The number in the name of a folder; None where it is no window."""
    return _number(_WINDOW, name)


def restart_number(name: str) -> int | None:
    """The number in the name of a folder; None where it is no restart. Before the first, there is no such folder."""
    return _number(_RESTART, name)


def _number(pattern: re.Pattern[str], name: str) -> int | None:
    found = pattern.fullmatch(name)
    return int(found[1]) if found else None


class StoredPath(PosixPath):
    """Its text is where the file is; opened, it is a copy on this machine, made when it is asked for.

    `redline.storage` has the one kind that there is: objects of a store. Here is what writing and looking need of it.
    """

    @abstractmethod
    def beginning(self, most_bytes: int) -> bytes:
        """The first bytes, without the rest."""

    @abstractmethod
    def local_part(self) -> AbstractContextManager[Path]:
        """A name on this machine for what is to be uploaded. The file there is gone after the block."""

    @abstractmethod
    def upload(self, part: Path) -> None:
        """Put a file of this machine there: whole or not at all. OutputError where that fails."""
