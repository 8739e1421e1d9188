"""Commands one after the other over a folder that changes between them: each says what a fresh process without a cache
says, whatever was done, kept, killed or read by another version before.

A hundred before a landing; `python -m scripts.sweep properties` tries two thousand.
"""

import gzip
import io
import multiprocessing
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import replace
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

import redline
from redline.cli import main
from redline.trace.cache import ENVIRONMENT, WORTH_BYTES
from redline.verbs.digest import digest
from tests.support.forked import Answer, Forked
from tests.support.made_snapshots import random_allocator
from tests.support.traces.synthetic import JobSpec, Straggler, rank_text, simulate_job

SEQUENCES = max(100, settings().max_examples)
PARTS = 2  # of them, which two workers of the tests can try at once
STEPS = 6  # of a sequence: changes, and commands
FOLDER, OTHER = "job", "other"
PRELOADED = [f"redline.{name}" for name in ("verbs.diagnose", "verbs.digest", "verbs.merge", "findings.match")]
SETTLED_S = 0.03  # what changed later than so long ago is not kept
OLDER = ("trace/metadata.py", "as_int(info.get(schema.WORLD_SIZE_KEY), 0)", "5")  # every job had 5 ranks

Contents = Mapping[str, bytes]


# --- what files hold --------------------------------------------------------------------------------------------------


def padded(text: str, size: int = WORTH_BYTES + 100) -> bytes:
    """With spaces after the first brace, so that what is made of the trace is kept."""
    before, brace, rest = text.partition("{")
    return (before + brace).encode() + b" " * (size - len(text)) + rest.encode()


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """Files by what they are. `rank-0` and `slow-rank-0` are of one size."""
    scratch = tmp_path_factory.mktemp("contents")
    late = Straggler(rank=0, extra_us=3000, where="host")
    usual = simulate_job(JobSpec(ranks=3, steps=2, layers=1))
    slow = simulate_job(JobSpec(ranks=3, steps=2, layers=1, stragglers=(late,), seed=7))
    other = simulate_job(JobSpec(ranks=2, steps=3, layers=2, seed=9))
    made = {f"rank-{rank}": padded("".join(rank_text(usual, rank))) for rank in range(3)}
    made["slow-rank-0"] = padded("".join(rank_text(slow, 0)))
    made["small"] = "".join(rank_text(usual, 0)).encode()
    made |= {f"other-rank-{rank}": gzip.compress(padded("".join(rank_text(other, rank))), 1) for rank in range(2)}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for name in ("rank-1", "rank-2"):
            member = tarfile.TarInfo(f"{name}.json")
            member.size = len(made[name])
            archive.addfile(member, io.BytesIO(made[name]))
    made["archive"] = packed.getvalue()
    made["stray"] = b'{"hello": "world"}'
    made["empty"] = b""
    (scratch / "rank-2.json").write_bytes(made["rank-2"])
    (target,) = digest([scratch / "rank-2.json"], scratch / "digests").paths
    made["digest"] = target.read_bytes()
    made["snapshot"] = random_allocator(3, 40).write(scratch / "snapshot.pickle").read_bytes()
    assert len(made["rank-0"]) == len(made["slow-rank-0"])
    return made


JOBS = st.sampled_from([1, 1, 2, None])  # a pool of processes costs as much as several commands without
VERB = st.sampled_from(["diagnose", "diagnose", "inspect", "memory", "compare"])
CHANGES = ("remove", "cut", "touch", "digest", "move", "link", "lead_away")
OTHERS = ("archive", "stray", "empty", "digest", "snapshot")
TRACES = ("rank-0", "slow-rank-0", "rank-1", "rank-2", "small", "other-rank-0", "other-rank-1")
ENDINGS = {"archive": ".tar.gz", "digest": ".digest", "snapshot": ".pickle"}


def file_name(place: int, content: str) -> str:
    return f"rank-{place}{ENDINGS.get(content, '.json')}"


# --- the same command, here and in a fresh process --------------------------------------------------------------------


def here(arguments: Sequence[str], folder: Path) -> Answer:
    """In this process, which has run all commands before it."""
    output, errors = io.StringIO(), io.StringIO()
    with chdir(folder), redirect_stdout(output), redirect_stderr(errors):
        code = main(list(arguments))
    return Answer(exit_code=code, output=output.getvalue(), errors=errors.getvalue())


def state_of(folder: Path) -> tuple[tuple[str, str], ...]:
    """Names and contents of all files."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    return tuple((str(path.relative_to(folder)), _content(path)) for path in paths)


def _content(path: Path) -> str:
    return blake2b(path.read_bytes(), digest_size=8).hexdigest() if path.is_file() else "nothing"


# --- the machine ------------------------------------------------------------------------------------------------------


class Commands(RuleBasedStateMachine):
    """A folder that anybody may change, and a user who asks about it."""

    contents: ClassVar[Contents]
    fresh: ClassVar[Forked]
    older: ClassVar[Forked]
    known: ClassVar[dict[object, tuple[Answer, dict[str, bytes]]]]  # what fresh processes said of states of the folder

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="redline-sequence-"))
        self.folder, self.cache = self.root / FOLDER, self.root / "cache"
        self.folder.mkdir()
        os.environ[ENVIRONMENT] = str(self.cache)
        for name in ("rank-0", "rank-1"):
            (self.folder / f"{name}.json").write_bytes(self.contents[name])
        (self.root / OTHER).mkdir()
        (self.root / OTHER / "rank-0.json").write_bytes(self.contents["slow-rank-0"])
        self.numbers = count()
        time.sleep(SETTLED_S)

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @property
    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_file() or path.is_symlink())

    # changes

    @rule(place=st.integers(0, 3), content=st.sampled_from([*TRACES, *OTHERS]))
    def put(self, place: int, content: str) -> None:
        """Add a file, or write over the one of this name."""
        (self.folder / file_name(place, content)).write_bytes(self.contents[content])

    @rule(which=st.integers(0, 3), content=st.sampled_from(TRACES), is_renamed=st.booleans(), keeps_time=st.booleans())
    def rewrite(self, which: int, content: str, *, is_renamed: bool, keeps_time: bool) -> None:
        """Where it is, or by another that is renamed into its place; perhaps with the time that it had."""
        paths = [path for path in self.files if path.exists()]
        if not paths:
            return
        path = paths[which % len(paths)]
        before = path.stat()
        written = self.root / "part" if is_renamed else path
        written.write_bytes(self.contents[content])
        if keeps_time:
            os.utime(written, ns=(before.st_atime_ns, before.st_mtime_ns))
        if is_renamed:
            written.replace(path)

    @rule(which=st.integers(0, 3), change=st.sampled_from(CHANGES))
    def change(self, which: int, change: str) -> None:
        files = self.files
        if files:
            getattr(self, f"_{change}")(files[which % len(files)])

    def _remove(self, path: Path) -> None:
        path.unlink()

    def _cut(self, path: Path) -> None:
        if path.exists():  # else it is a link to nothing
            os.truncate(path, path.stat().st_size // 2)

    def _touch(self, path: Path) -> None:
        if path.exists():
            path.touch()

    def _digest(self, path: Path) -> None:
        path.unlink()
        path.with_suffix(".digest").write_bytes(self.contents["digest"])

    def _move(self, path: Path) -> None:
        path.replace(self.folder / f"moved-{next(self.numbers)}.json")

    def _link(self, path: Path) -> None:
        (self.folder / f"link-{next(self.numbers)}.json").symlink_to(path.name)

    def _lead_away(self, path: Path) -> None:
        """Out of the folder: it becomes a link to where it went."""
        target = self.root / f"target-{next(self.numbers)}"
        path.replace(target)
        path.symlink_to(target)

    # commands

    @rule(jobs=JOBS, verb=VERB, is_cached=st.sampled_from([True, True, False]))
    def ask(self, jobs: int | None, verb: str, *, is_cached: bool) -> None:
        self.check([verb, FOLDER, *([OTHER] if verb == "compare" else []), "--json"], jobs, is_cached=is_cached)

    @rule(jobs=JOBS, verb=VERB, which=st.integers(0, 3), content=st.sampled_from(TRACES), is_renamed=st.booleans())
    def ask_rewrite_ask(self, jobs: int | None, verb: str, which: int, content: str, *, is_renamed: bool) -> None:
        """Nothing but what is in a file changes."""
        self.ask(1, verb, is_cached=True)
        self.rewrite(which, content, is_renamed=is_renamed, keeps_time=True)
        self.ask(jobs, verb, is_cached=True)

    @rule(jobs=st.sampled_from([1, 2]))
    def merge(self, jobs: int) -> None:
        self.check(["merge", FOLDER, "-o", "merged.json"], jobs)

    @rule(jobs=st.sampled_from([1, 2]), parts=st.integers(1, 3))
    def digest(self, jobs: int, parts: int) -> None:
        """All parts, one after the other, into one folder."""
        for part in range(parts):
            self.check(["digest", FOLDER, "-o", "digests", "--shard", f"{part}/{parts}"], jobs)

    @rule(is_inspected=st.booleans())
    def ask_older_version(self, *, is_inspected: bool) -> None:
        time.sleep(SETTLED_S)
        verb = "inspect" if is_inspected else "diagnose"
        self.older.run([verb, FOLDER, "--json", "--jobs", "1"], self.root, {ENVIRONMENT: str(self.cache)})
        self.ask(1, verb, is_cached=True)

    @rule(after_s=st.floats(0, 0.2))
    def kill(self, after_s: float) -> None:
        time.sleep(SETTLED_S)
        arguments = ["diagnose", FOLDER, "--json", "--jobs", "1"]
        self.fresh.run(arguments, self.root, {ENVIRONMENT: str(self.cache)}, kill_after_s=after_s)

    def check(self, arguments: Sequence[str], jobs: int | None, *, is_cached: bool = True) -> None:
        time.sleep(SETTLED_S)
        asked: list[str] = []
        alone: list[str] = []
        if arguments[0] != "memory":  # which has no such options
            asked = [*([] if jobs is None else ["--jobs", str(jobs)]), *([] if is_cached else ["--no-cache"])]
            alone = ["--jobs", "1", "--no-cache"]
        found = self.anywhere(here([*arguments, *asked], self.root)), self.taken()
        key = (*arguments, state_of(self.folder))
        if key not in self.known:
            expected = self.fresh.run([*arguments, *alone], self.root, {ENVIRONMENT: "off"})
            self.known[key] = self.anywhere(expected), self.taken()
        assert found == self.known[key]

    def anywhere(self, answer: Answer) -> Answer:
        return replace(
            answer,
            output=answer.output.replace(str(self.root), "ROOT"),
            errors=answer.errors.replace(str(self.root), "ROOT"),
        )

    def taken(self) -> dict[str, bytes]:
        """What a command wrote, which is removed."""
        written = [self.root / "merged.json", *self.root.glob("digests/*")]
        contents = {path.name: path.read_bytes() for path in written if path.exists()}
        for path in written:
            path.unlink(missing_ok=True)
        return contents


@pytest.fixture(scope="module")
def older_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it was before a trace was read as it is today, compiled but for what differs."""
    source = tmp_path_factory.mktemp("older")
    shutil.copytree(Path(redline.__file__).parent, source / "redline")
    name, text, instead = OLDER
    path = source / "redline" / name
    assert text in path.read_text()
    path.write_text(path.read_text().replace(text, instead))
    return source


@pytest.fixture
def started_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of the pool are forked from one that has imported Redline; else each took a second to import it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: context)


@pytest.fixture(scope="module")
def machine(
    contents: Contents, older_source: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[type[Commands]]:
    source = Path(redline.__file__).parents[1]
    scratch = [tmp_path_factory.mktemp(name) for name in ("fresh", "older")]
    with Forked(source, scratch[0]) as fresh, Forked(older_source, scratch[1]) as older:

        class Told(Commands):
            pass

        Told.contents, Told.fresh, Told.older, Told.known = contents, fresh, older, {}
        yield Told


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.usefixtures("started_at_once")
def test_whatever_came_before(part: int, machine: type[Commands], monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts differ by chance."""
    monkeypatch.setenv(ENVIRONMENT, "off")  # each sequence sets its own
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=SEQUENCES // PARTS,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
