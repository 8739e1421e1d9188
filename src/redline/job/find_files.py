"""From what the user named (files, folders, patterns) to the trace files to read."""

import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, overload

from redline.artifacts import DIGEST_ENDING, restart_number, window_number
from redline.errors import InputError, UsageError
from redline.storage import beginning_of, below, is_remote, kept, look_anew, matches, path_of, shown
from redline.trace.inflate import contents
from redline.trace.other_formats import ASCEND_FOLDER, ASCEND_SIDE_FILE, what_it_is

TRACE_ENDINGS = (".json", ".json.gz", ".json.zst", ".json.tmp", ".json.gz.tmp", ".tar", ".tar.gz", ".tgz", ".tar.zst")
Result = TypeVar("Result")
_LOOKS = 4  # for files that are moved while they are read
_NOT_TRACES = ("truth.json", "run.json", "manifest.json")
RUN_DIGESTS = "digests"  # in the folder of a run: those that were made where its ranks ran
_UNFINISHED = ".tmp"
_MOST_LOOKED_AT, _LOOK_BYTES = 64, 1 << 19  # files of a folder without a trace
_HEAD_BYTES = 500
_HEAD_STORED_BYTES = 160_000  # as much as a block of zstd can take
_AND_DIGESTS = f", then for {DIGEST_ENDING}"
MERGED_KIND = "merged-trace"  # how a trace that Redline merged says so, near its beginning


class TraceFiles(Sequence[Path]):
    """The files that a command means: searched for when they are first asked for, and once."""

    def __init__(self, named: Sequence[str | Path], *, digests: bool = False) -> None:
        self._named, self._digests = named, digests
        self.found: list[Path] = []  # empty until they are asked for

    @overload
    def __getitem__(self, index: int) -> Path: ...
    @overload
    def __getitem__(self, index: slice) -> list[Path]: ...
    def __getitem__(self, index: int | slice) -> Path | list[Path]:
        self.found = self.found or find_traces(self._named, digests=self._digests)
        return self.found[index]

    def __len__(self) -> int:
        return len(self[:])


def find_traces(named: str | Path | Iterable[str | Path], *, digests: bool = False) -> list[Path]:
    """Every trace file meant, in a stable order, each once; where asked for, digests of traces as well."""
    if isinstance(named, TraceFiles):
        return list(named)
    paths: dict[Path, Path] = {}
    for name in [named] if isinstance(named, str | Path) else named:
        if not str(name):
            raise InputError("an empty path was given; is a variable of the shell unset?")
        for path in _meant_by(str(name), digests):
            paths.setdefault(path.absolute(), path)
    if not paths:
        raise UsageError("no path was given; name the files, folders or patterns of the traces")
    return list(paths.values())


def read_found(
    named: str | Path | Iterable[str | Path], read: Callable[[list[Path]], Result], *, digests: bool = False
) -> tuple[list[Path], Result]:
    """The files that are meant, and what was read of them. They are looked for anew where some were moved meanwhile, as
    folders are that a job still writes into."""
    named = named if isinstance(named, str | Path | TraceFiles) else list(named)
    for left in reversed(range(_LOOKS)):
        files = find_traces(named, digests=digests)
        try:
            result = read(files)
        except InputError:
            if not left or not _are_gone(files):
                raise
        else:
            if not left or not _are_gone(files):
                return files, result
        if isinstance(named, TraceFiles):
            named.found = []
    raise AssertionError("the last look returns or raises")


def _are_gone(files: Iterable[Path]) -> bool:
    """Some of them; a link to nothing is still there."""
    return any(not is_remote(path) and not os.path.lexists(path) for path in files)


def _meant_by(named: str, digests: bool) -> list[Path]:
    path = path_of(named)
    look_anew(path)
    if path.is_dir():
        inside = _of_newest_window(path, digests) or _inside(path, digests)
        if not inside:
            also = _AND_DIGESTS if digests else ""
            raise InputError(
                f"{shown(named)}: no trace in this folder "
                f"(looked for {', '.join(TRACE_ENDINGS[:4])} and archives{also}).{_what_is_there(path)}"
            )
        return _without_superseded(inside)
    if path.exists():
        return [path]
    meant = sorted(matches(named), key=_natural)
    if not meant:
        raise InputError(f"{shown(named)}: no such file or folder, and as a pattern it matches nothing.")
    return [inner for match in meant for inner in (_meant_by(str(match), digests) if match.is_dir() else [match])]


def _inside(folder: Path, digests: bool) -> list[Path]:
    """Traces in the folder and below; raw traces beside their digests would count every rank twice."""
    traces = sorted(kept(_looks_like_a_trace, below(folder, "*")), key=_natural)
    return traces or (sorted(below(folder, f"*{DIGEST_ENDING}"), key=_natural) if digests else [])


def _of_newest_window(folder: Path, digests: bool) -> list[Path]:
    """The files of the window that was captured last, in a folder that `redline run` left; of any other folder none."""
    digested = folder if folder.name == RUN_DIGESTS else folder / RUN_DIGESTS
    with_digests = _windows(digested, f"*{DIGEST_ENDING}") if digests else {}
    is_run = (folder / "run.json").is_file()
    if not is_run and not with_digests:
        return []
    with_traces = _windows(folder, "*.json.gz") if folder != digested else {}
    if not with_traces and not with_digests:
        if (folder / "steps").is_dir():  # otherwise it is somebody else's run.json
            raise InputError(f"{folder}: nothing of this run was captured: {_why_nothing(folder / 'run.json')}.")
        return []
    newest = max((*with_traces, *with_digests))
    traces = _inside(with_traces[newest], digests=False) if newest in with_traces else []
    return _each_rank_once(traces, _inside(with_digests[newest], digests=True) if newest in with_digests else [])


def _each_rank_once(traces: list[Path], digests: list[Path]) -> list[Path]:
    """Traces where those of all ranks are there; else digests, and traces of ranks that have none."""
    traced, digested = ({path.name.partition(".")[0] for path in paths} for paths in (traces, digests))
    if digested <= traced:
        return traces
    return sorted(
        [*digests, *(path for path in traces if path.name.partition(".")[0] not in digested)],
        key=lambda path: _natural(Path(path.name)),
    )


def _what_is_there(folder: Path) -> str:
    """The first file that is another tool's, and what to do instead; "" where there is none."""
    for path in sorted(kept(_is_file, below(folder, "*")), key=_natural)[:_MOST_LOOKED_AT]:
        with suppress(OSError), beginning_of(path, _LOOK_BYTES) as start, start.open("rb") as file:
            if what := what_it_is(file.read(_LOOK_BYTES)):
                return f"\n{path.relative_to(folder)} is {what}"
    return ""


def _windows(folder: Path, pattern: str) -> dict[tuple[int, int], Path]:
    """The newest window that holds such a file, by the numbers of restart and window; nothing where there is none."""
    if not folder.is_dir():
        return {}
    folders = {
        (restart_number(path.parent.name) or 0, window_number(path.name) or 0): path
        for parent in (folder, *folder.glob("restart-*"))
        for path in parent.glob("window-*")
    }
    for number in sorted(folders, reverse=True):
        if folders[number].is_dir() and any(folders[number].glob(pattern)):
            return {number: folders[number]}
    return {}


def _why_nothing(record: Path) -> str:
    """From the record of the run, as far as it says."""
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        content = json.loads(record.read_bytes())
        steps = max((int(one["steps"]) for one in content["ranks"]), default=0)
        settings, wall_s = content["settings"], content["wall_ns"] / 1e9
        if not settings["capture"]:
            return "it ran with --watch-only"
        if not any("versions" in one["facts"] for one in content["ranks"]):
            return "it did not import torch"
        if not steps:
            return (
                f"in {wall_s:.0f} s no steps were recognised (no optimizer of torch stepped and no module was called). "
                "Call redline.step() at the end of each step, or capture a timed window sooner with --timed-after"
            )
        if steps <= settings["after"] + 1 and not settings["when"]:
            return f"it took {steps:,} steps, and the first window follows {settings['after']:,}. Try a smaller --after"
    return f"{record} says why"


def _looks_like_a_trace(path: Path) -> bool:
    """By its name; a merged trace beside the traces that it was made of would count every rank twice."""
    named_so = path.name.endswith(TRACE_ENDINGS) and path.name not in _NOT_TRACES
    if ASCEND_SIDE_FILE.fullmatch(path.name) and ASCEND_FOLDER.search(path.parent.name):
        return False
    return named_so and _is_file(path) and not _is_merged(path)


def _is_file(path: Path) -> bool:
    """Also where that cannot be told: then reading it says why."""
    try:
        return path.is_file()
    except OSError:
        return True


def _is_merged(path: Path) -> bool:
    with suppress(InputError), beginning_of(path, _HEAD_STORED_BYTES) as stored:
        for content in contents(stored):
            return MERGED_KIND.encode() in content.stream.read(_HEAD_BYTES)[:_HEAD_BYTES]
    return False


def _natural(path: Path) -> list[tuple[int, int | str]]:
    """A key by which rank-10 comes after rank-2."""
    words = re.split(r"([0-9]+)", str(path))
    return [(1, int(word)) if word.isdecimal() else (0, word) for word in words]


def _without_superseded(paths: list[Path]) -> list[Path]:
    """An unfinished export counts only where the finished file is absent."""
    present = set(paths)
    return [
        path
        for path in paths
        if path.suffix != _UNFINISHED or not {path.with_suffix(""), path.with_suffix(".gz")} & present
    ]
