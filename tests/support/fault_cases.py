"""Runs a faulty job bare and under `redline run`, and says which promises of `redline run` do not hold.

`test_run_faults.py` does it with a sample, `scripts/fault_matrix.py` with all there is.
"""

import gzip
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.command_line import run_redline

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests/e2e/programs/faulty.py"
WINDOW = ("--after", "8", "--steps", "3", "--timed-after", "0")  # none other, however late a first step comes
PLACES = ("before", "in", "after")
RANKS = (1, 2, 4)
MEMORY_RANKS = (1, 2)
MARK = "MARK_OF_A_TEST"  # of the environment, by which processes of a run are told from all others
SECONDS = 120
BARE_ATTEMPTS = 3
GRACE_S = 2.0  # for processes that were told to end

ENDS_ORDERLY = ("exception", "exit7", "sigint", "oom", "sigterm", "nested")
ENDS_AT_ONCE = ("sigkill", "sigsegv", "abort", "os_exit")
GOES_ON = ("clean", "sigstop", "lock_gil", "async_exc", "forks", "own_profiler")
ON_FOLDER = ("disk_full", "read_only", "deleted", "fsize")
FAULTS = (*GOES_ON, *ENDS_ORDERLY, *ENDS_AT_ONCE, *ON_FOLDER)
ON_OWN_DISK = ("disk_full", "read_only")
_OWN_DISK = """
mount -t tmpfs none /dev/shm && mount -t tmpfs -o size=4g,nr_inodes=64 none "$0" || exit 99
"$@"
code=$?
cp -a "$0/." "$0.kept"
ls -A /dev/shm >"$0.shared"
exit $code
"""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell; jobs would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass(frozen=True)
class Case:
    """A fault, where it happens, and on how many processes; it happens on the last of them."""

    fault: str
    at: str
    ranks: int
    memory: bool = False
    """Whether allocations are recorded too."""
    digests: bool = False
    """Whether windows are digested beside the job."""

    def __str__(self) -> str:
        return f"{self.fault}-{self.at}-{self.ranks}{'-memory' * self.memory}{'-digests' * self.digests}"

    @property
    def victim(self) -> int:
        return self.ranks - 1


@dataclass(frozen=True)
class Outcome:
    """What a user sees of a job, and what is left of it."""

    status: int
    stdout: str
    stderr: str
    fired: int
    processes: tuple[str, ...]
    temporary: tuple[str, ...]
    seconds: float


def every_case() -> list[Case]:
    """All but those that are the same: without a fault there is no place where it happens, outside of a window nothing
    is recorded of allocations, and before one there is nothing to digest."""
    places = {fault: ("in",) if fault == "clean" else PLACES for fault in FAULTS}
    plain = [Case(fault, at, ranks) for ranks in RANKS for fault in FAULTS for at in places[fault]]
    with_memory = [Case(fault, "in", ranks, memory=True) for ranks in MEMORY_RANKS for fault in FAULTS]
    digested = {fault: [at for at in places[fault] if at != "before"] for fault in FAULTS}
    with_digests = [
        Case(fault, at, ranks, digests=True) for ranks in MEMORY_RANKS for fault in FAULTS for at in digested[fault]
    ]
    return plain + with_memory + with_digests


# --- running ----------------------------------------------------------------------------------------------------------


def job(case: Case, folder: Path) -> list[str]:
    """The script with its arguments."""
    fault = "exit7" if case.fault == "nested" else case.fault
    words = [PROGRAM, "--fault", fault, "--at", case.at, "--rank", case.victim]
    return [*map(str, words), "--folder", str(folder / "run"), "--fired", str(folder / "fired")]


def bare_case(case: Case) -> Case:
    """The case whose bare run is the same: what happens to the folder of a run does not happen without one."""
    if case.fault in ("disk_full", "read_only", "deleted"):
        return Case("clean", "in", case.ranks)
    return Case("exit7" if case.fault == "nested" else case.fault, case.at, case.ranks)


def run_bare(case: Case, folder: Path) -> Outcome:
    """Without us. torch itself aborts now and then while Python ends; a run that did so is no measure."""
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", str(case.ranks)] if case.ranks > 1 else []
    for attempt in map(str, range(BARE_ATTEMPTS)):
        outcome = run([sys.executable, *torchrun, *job(case, folder / attempt)], folder / attempt)
        if outcome.status == 0 or case.fault not in GOES_ON:
            return outcome
    raise AssertionError(f"{case}: the bare run fails over and over")


def run_watched(case: Case, folder: Path, *options: str) -> Outcome:
    """Under `redline run`, which keeps quiet; its files are in `folder / "run"` afterwards."""
    torchrun = ["--nproc-per-node", str(case.ranks)] if case.ranks > 1 else []
    options = (*options, *["--memory"] * case.memory, *["--digests"] * case.digests)
    words = [*redline_run(folder / "run", *options, *torchrun), "--"]
    if case.fault == "nested":
        words += ["-m", *redline_run(folder / "inner", *options)[2:], "--"]
    words += job(case, folder)
    if case.fault in ON_OWN_DISK:
        return _on_own_disk(words, folder)
    return run(words, folder)


def redline_run(folder: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "redline", "run", "-q", "-o", str(folder), *WINDOW, *options]


def _on_own_disk(words: Sequence[str], folder: Path) -> Outcome:
    """The folder of the run is a disk of its own, which this run alone sees, and so is the memory that it may share."""
    disk = folder / "run"
    disk.mkdir(parents=True)
    (folder / "run.kept").mkdir()
    outcome = run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _OWN_DISK, str(disk), *words], folder)
    shutil.rmtree(disk)
    (folder / "run.kept").rename(disk)
    shared = (folder / "run.shared").read_text().split()
    return replace(outcome, temporary=(*outcome.temporary, *shared))


@cache
def can_have_own_disk() -> bool:
    words = ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def environment(temporary: Path, mark: str) -> dict[str, str]:
    quiet = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    return os.environ | quiet | {"TMPDIR": str(temporary), "PYTHONPATH": str(ROOT / "src"), MARK: mark}


def run(words: Sequence[str], folder: Path, *, given: str = "", cwd: Path | None = None) -> Outcome:
    folder.mkdir(parents=True, exist_ok=True)
    # With a short path: `multiprocessing` has sockets there, whose names must not be long.
    with tempfile.TemporaryDirectory(prefix="f-") as name:
        return _run(words, folder, Path(name), given, cwd)


def _run(words: Sequence[str], folder: Path, temporary: Path, given: str, cwd: Path | None) -> Outcome:
    mark = uuid.uuid4().hex
    began_s = time.monotonic()
    with subprocess.Popen(
        [*words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd or folder,
        env=environment(temporary, mark),
    ) as process:
        try:
            stdout, stderr = process.communicate(given, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            _end_all(mark)
            raise
    fired = folder / "fired"
    return Outcome(
        status=process.returncode,
        stdout=stdout,
        stderr=stderr,
        fired=len(fired.read_text().splitlines()) if fired.exists() else 0,
        processes=tuple(_left(mark)),
        temporary=tuple(sorted(_without_chance(path.name) for path in temporary.iterdir())),
        seconds=time.monotonic() - began_s,
    )


def _end_all(mark: str) -> None:
    for pid, _ in marked(mark):
        os.kill(pid, signal.SIGKILL)


def _left(mark: str) -> list[str]:
    """Processes of the run that are still there after a moment."""
    until_s = time.monotonic() + GRACE_S
    while (found := list(marked(mark))) and time.monotonic() < until_s:
        time.sleep(0.05)
    return [command for _, command in found]


def marked(mark: str) -> Iterator[tuple[int, str]]:
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                if mark.encode() in (process / "environ").read_bytes():
                    command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    yield int(process.name), command
            except OSError:  # it has just ended, or is not ours
                continue


def _without_chance(name: str) -> str:
    """The name of a temporary file without what `tempfile` put in at random."""
    return re.sub(r"[a-z0-9_]{8}$", "", name)


# --- promises ---------------------------------------------------------------------------------------------------------


def broken(case: Case, bare: Outcome, watched: Outcome, folder: Path) -> list[str]:
    """What does not hold, in words; nothing where all does."""
    return [
        *_differences(case, bare, watched),
        *_left_behind(bare, watched),
        *_not_sound(folder),
        *_not_as_expected(case, folder),
    ]


def _differences(case: Case, bare: Outcome, watched: Outcome) -> Iterator[str]:
    """P1, P2, P3 and P14: the same end, the same output with the same losses, and the same last words."""
    if case.fault != "clean" and watched.fired != 1:
        yield f"the fault fired {watched.fired} times"
    if bare.status != watched.status:
        yield f"P1: ended with {watched.status} instead of {bare.status}: {watched.stderr[-500:]}"
    for name, expected, found in (
        ("P2, P14: stdout", _ordered(bare.stdout), _ordered(watched.stdout)),
        ("P2, P3: stderr", masked(bare.stderr), masked(_as_if_not_nested(case, watched.stderr))),
    ):
        if expected != found:
            yield f"{name}: {_first_difference(expected, found)}"


def _as_if_not_nested(case: Case, text: str) -> str:
    """torchrun names what it started, and that is another `redline` then."""
    return text.replace("redline FAILED", f"{PROGRAM} FAILED") if case.fault == "nested" else text


def _ordered(text: str) -> list[str]:
    """Lines of several processes come in any order."""
    return sorted(text.splitlines())


_OF_CHANCE = (
    (r"^(USDT:)\S+ \S+ \S+ ", r"\1 "),  # date, time and process in what the script's own profiler says
    (r"^([WEI])\d{4} \d\d:\d\d:\d\d\.\d+ \d+ ", r"\1 "),  # date, time and process of torchrun's log
    (r"\b(pid:? |PID |[Pp]rocess )\d+", r"\1N"),
    (r"^(  time +: ).*", r"\1T"),
    (r"^(  host +: ).*", r"\1H"),
    (r"^([=-])[=-]{9,}$", r"\1"),  # lines of torchrun's box, as long as the longest text in it, numbers included
)


def masked(text: str) -> list[str]:
    """Lines of stderr; in those of torchrun and the profiler, what is another each time is left out."""
    for pattern, instead in _OF_CHANCE:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text.splitlines()


def _first_difference(expected: Sequence[str], found: Sequence[str]) -> str:
    for one, other in zip(expected, found, strict=False):
        if one != other:
            return f"{other!r} instead of {one!r}"
    more, word = (found[len(expected) :], "more") if len(found) > len(expected) else (expected[len(found) :], "less")
    return f"{len(more)} lines {word}: {more[:3]!r}"


def _left_behind(bare: Outcome, watched: Outcome) -> Iterator[str]:
    """P15."""
    if watched.processes:
        yield f"P15: still running: {watched.processes}"
    if watched.temporary != bare.temporary:
        yield f"P15: temporary files {watched.temporary} instead of {bare.temporary}"


_ITS_FILES = re.compile(r"run\.json|steps(/rank-\d+\.json)?|window-\d+(/rank-\d+\.trace\.json\.gz)?|fill-\d+"
                        r"|digests(/window-\d+(/rank-\d+\.digest)?)?")  # fmt: skip


def _not_sound(folder: Path) -> Iterator[str]:
    """P9: every file is whole, is one that the record knows, and has its checksum."""
    for run_folder in (folder / "run", folder / "inner"):
        yield from _unsound(run_folder) if run_folder.is_dir() else ()
    yield from (f"P15: {path.name} was left" for path in folder.glob("redline-runs"))


def _unsound(run_folder: Path) -> Iterator[str]:
    known = {path: window for _, path, window in written(run_folder)}
    for path in run_folder.rglob("*"):
        name = str(path.relative_to(run_folder))
        if not _ITS_FILES.fullmatch(name):
            yield f"P9: a file that nobody knows: {name}"
        elif name.endswith(".gz"):
            if not json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]:
                yield f"P9: {name} is empty"
            if (run_folder / "run.json").exists() and name not in known:
                yield f"P9: {name} is not in run.json"
    for made in (record_of(run_folder).get("digests") or {"newest": ()})["newest"]:
        path = run_folder / made["path"]
        if (path.stat().st_size if path.exists() else 0) != made["size_bytes"]:
            yield f"P9: {made['path']} is not what run.json says"
    for name, window in known.items():
        content = (run_folder / name).read_bytes() if (run_folder / name).exists() else b""
        if hashlib.sha256(content).hexdigest() != window["sha256"] or len(content) != window["size_bytes"]:
            yield f"P9: {name} is not what run.json says"


def record_of(run_folder: Path) -> dict[str, Any]:
    path = run_folder / "run.json"
    return json.loads(path.read_text()) if path.exists() else {"ranks": []}


def written(run_folder: Path) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Rank, path and record of every trace that the record of the run speaks of."""
    for one in record_of(run_folder)["ranks"]:
        for window in one["windows"]:
            if window["state"] == "written":
                yield one["rank"], window["path"], window


def expected_ranks(case: Case) -> set[int]:
    """Those of which there must be a trace."""
    everybody = set(range(case.ranks))
    others = everybody - {case.victim}
    if case.fault in GOES_ON:
        return everybody
    if case.fault in ENDS_ORDERLY:
        return set() if case.at == "before" else everybody
    if case.fault in ENDS_AT_ONCE:
        return {"before": set(), "in": others, "after": everybody}[case.at]
    if case.fault == "fsize":
        return everybody if case.at == "after" else others
    if case.fault == "deleted":
        return set() if case.at == "after" else everybody
    return everybody if case.at == "after" else set()


def _not_as_expected(case: Case, folder: Path) -> Iterator[str]:
    """P10: traces are there of all ranks that could leave one, and diagnose reads them and names those that are not."""
    run_folder = folder / ("inner" if case.fault == "nested" else "run")
    traced = {int(path.name[5:].partition(".")[0]) for path in run_folder.glob("window-*/*.gz")}
    expected = expected_ranks(case)
    if case.fault == "oom" and case.at == "in":  # what was recorded can be saved only if some memory is left
        expected = {*expected - {case.victim}, *traced & {case.victim}}
    if traced != expected:
        yield f"P10: traces of ranks {sorted(traced)} instead of {sorted(expected)}: {_reasons(run_folder)}"
    if case.digests and case.fault in GOES_ON:
        digested = {int(path.name[5:].partition(".")[0]) for path in run_folder.glob("digests/window-*/*.digest")}
        if digested != traced:
            yield f"digests of ranks {sorted(digested)} instead of {sorted(traced)}: {record_of(run_folder)['notes']}"
    if traced:
        found = diagnose(run_folder, folder)
        read = {"diagnose": found} | ({"memory": redline("memory", run_folder, folder)} if case.memory else {})
        for verb, ended in read.items():
            if ended.returncode != 0 or "Traceback" in ended.stderr:
                yield f"P10: {verb}: {ended.returncode} {ended.stderr[-300:]}"
        missing = sorted(set(range(case.ranks)) - traced)
        if missing and not says_missing(found.stdout, missing):
            yield f"P10: diagnose does not say that ranks {missing} are missing"


def _reasons(run_folder: Path) -> str:
    ranks = record_of(run_folder)["ranks"]
    return str([(one["rank"], one["steps"], [w["state"] for w in one["windows"]], one["notes"]) for one in ranks])


def diagnose(run_folder: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return redline("diagnose", run_folder, folder)


def redline(verb: str, run_folder: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return run_redline(verb, run_folder, cwd=folder, told={"REDLINE_CACHE": str(folder / "cache")})


def says_missing(text: str, ranks: Sequence[int]) -> bool:
    lines = [line for line in text.splitlines() if "no trace of rank" in line]
    return all(any(re.search(rf"\b{rank}\b", line) for line in lines) for rank in ranks)
