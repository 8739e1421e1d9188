"""What `redline run` promises beyond the matrix of faults: limits, signals, other profilers, and not being seen."""

import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from tests.support.fault_cases import ROOT, environment, marked, redline_run, run, written
from tests.support.promises import TRAIN, both, check_same, codes, needs_torch, rank_of, script, states, watched

# --- P15, P16: the script sees the same world -------------------------------------------------------------------------

WORLD = """
import json, os, sys, __main__
hidden = ("MARK_OF_A_TEST", "TMPDIR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE")
print(json.dumps({
    "environment": {k: v for k, v in sorted(os.environ.items()) if k not in hidden},
    "path": sys.path, "argv": sys.argv, "orig_argv": sys.orig_argv, "cwd": os.getcwd(), "name": __name__,
    "file": __file__, "main": sorted(vars(__main__)), "spec": __spec__ and __spec__.name, "flags": str(sys.flags),
    "input": sys.stdin.read(), "sitecustomize": str(sys.modules.get("sitecustomize")), "signals": [
        str(__import__("signal").getsignal(n)) for n in range(1, 32)], "meta": len(sys.path_hooks),
}, indent=1))
sys.exit(5)
"""


@pytest.mark.parametrize("way", ["script", "module", "package", "folder"])
def test_a_job_sees_the_same_world(way: str, tmp_path: Path) -> None:
    job = script(tmp_path / "job", WORLD)
    script(tmp_path / "job/package", WORLD, "__main__.py")
    words = {"script": [job.name], "module": ["-m", "job"], "package": ["-m", "package"], "folder": ["package"]}[way]
    words += ["-q", "--output", "x y", "--", "-m"]
    bare = run([sys.executable, *words], tmp_path / "bare", given="one\ntwo\n", cwd=job.parent)
    other = run([*redline_run(tmp_path / "watched/run"), "--", *words], tmp_path / "watched",
                given="one\ntwo\n", cwd=job.parent)  # fmt: skip
    assert bare.status == 5
    check_same(bare, other)


@needs_torch
@pytest.mark.slow
def test_a_job_of_torchrun_sees_the_same_world(tmp_path: Path) -> None:
    job = script(tmp_path / "job", WORLD)
    bare = run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "1", str(job)], tmp_path / "bare")
    other = run([*redline_run(tmp_path / "watched/run"), "--nproc-per-node", "1", "--", str(job)], tmp_path / "watched")
    here = [(tmp_path / name).as_posix() for name in ("bare", "watched")]
    assert other.status == bare.status == 1
    assert other.stdout.replace(here[1], "HERE") == bare.stdout.replace(here[0], "HERE")


ODD = (
    TRAIN
    + """
os.chdir("/")
sys.excepthook = lambda kind, error, trace: print("my own hook:", error)
print(sys.stdin.readline().strip(), __name__)
for step in range(1, 12):
    train()
os.chdir("/tmp")
raise ValueError("in the window")
"""
)


@needs_torch
def test_a_job_that_moves_reads_and_replaces_the_excepthook(tmp_path: Path) -> None:
    bare, other = both(tmp_path, ODD, given="a line\nanother\n")
    assert (bare.status, bare.stdout) == (1, "a line __main__\nmy own hook: in the window\n")
    check_same(bare, other)
    assert states(tmp_path) == ["written"]


UNSEEN = (
    TRAIN
    + """

def opened():
    files = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            files.add((number, os.readlink(f"/proc/self/fd/{number}")))
        except FileNotFoundError:  # the listing's own
            pass
    return files

told = []
signal.signal(signal.SIGCHLD, lambda *_: told.append(1))
for step in range(1, 31):
    train()
    try:
        children = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        children = None
    seen = threading.active_count(), children, len(told)
    outside = step < 7 or step > 16
    if outside:
        seen += signal.getsignal(signal.SIGTERM), signal.set_wakeup_fd(-1)
    print(step, seen)
    if step == 5:
        before = opened()
left = opened() - before
for attempt in range(20):  # the profiler's own thread may just be looking for its settings
    if left:
        time.sleep(0.1)
        left &= opened()
print("files left open:", left)
"""
)


@needs_torch
def test_a_window_is_not_seen(tmp_path: Path) -> None:
    """P11, P15, P16: no child, no thread, no call of the handler for children, no file, and no handler afterwards."""
    bare, other = both(tmp_path, UNSEEN)
    check_same(bare, other)
    assert states(tmp_path) == ["written"]


# --- P3: what the script raises is its own ----------------------------------------------------------------------------

ALARMED = (
    TRAIN
    + """
import random

class Alarm(Exception):
    pass

def ring(number, frame):
    raise Alarm

signal.signal(signal.SIGALRM, ring)
delays = random.Random(4)
rang = 0
for step in range(1, 101):
    try:
        signal.setitimer(signal.ITIMER_REAL, delays.choice([0.0003, 0.001, 0.003, 0.01, 0.03, 0.1]))
        model(torch.ones(4, 8))
        while True:
            time.sleep(1)
    except Alarm:
        rang += 1
    print(step, train())
print("rang", rang)
"""
)


@needs_torch
def test_alarms_that_raise_in_the_midst_of_our_work_are_the_scripts(tmp_path: Path) -> None:
    bare, other = both(tmp_path, ALARMED, "--every", "5", "--budget", "100%")
    assert (bare.status, bare.stderr, bare.stdout.splitlines()[-1]) == (0, "", "rang 100")
    check_same(bare, other)
    assert set(states(tmp_path)) <= {"written", "failed"}
    assert not [*(tmp_path / "watched/run").rglob("*.part")]


# --- P4: never two profilers ------------------------------------------------------------------------------------------

PROFILED = (
    TRAIN
    + """
import json, tempfile

with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
    for step in range(1, 31):
        train()
with tempfile.NamedTemporaryFile(suffix=".json") as file:
    profiler.export_chrome_trace(file.name)
    names = [event.get("name") for event in json.load(open(file.name))["traceEvents"]]
print(names.count("aten::addmm"), sum(str(name).startswith("ProfilerStep") for name in names))
"""
)


@needs_torch
def test_beside_the_scripts_own_profiler_nothing_is_captured(tmp_path: Path) -> None:
    bare, other = both(tmp_path, PROFILED)
    assert (bare.status, bare.stdout) == (0, "30 0\n")
    assert (other.status, other.stdout) == (bare.status, bare.stdout)
    assert (states(tmp_path), codes(tmp_path)) == ([], ["profiler-taken"])


PROFILED_ELSEWHERE = (
    TRAIN
    + """
def profile():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        torch.ones(3).sum()
    print("events:", len(profiler.events()) > 0)

for step in range(1, 31):
    train()
    if step == 10:
        other = threading.Thread(target=profile)
        other.start()
        other.join()
"""
)


@needs_torch
@pytest.mark.slow
def test_a_profiler_in_another_thread_does_no_harm(tmp_path: Path) -> None:
    bare, other = both(tmp_path, PROFILED_ELSEWHERE)
    assert bare.status == 0
    assert (other.status, other.stdout) == (bare.status, bare.stdout)


# --- P5: one line of warning ------------------------------------------------------------------------------------------


@needs_torch
def test_a_folder_that_cannot_be_made_costs_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    job = script(tmp_path / "job", TRAIN + "for step in range(30): print(train())\n")
    bare = run([sys.executable, str(job)], tmp_path / "bare")
    words = [*redline_run(tmp_path / "file/run"), "--", str(job)]
    quiet = run(words, tmp_path / "quiet")
    check_same(bare, quiet)
    told = run([word for word in words if word != "-q"], tmp_path / "told")
    assert (told.status, told.stdout) == (0, bare.stdout)
    assert sum("nothing was captured" in line for line in told.stderr.splitlines()) == 1


# --- P6, P7: limits ---------------------------------------------------------------------------------------------------

STEPS_100 = (
    TRAIN
    + """
for step in range(100):
    train()
    time.sleep(0.01)
"""
)


@needs_torch
def test_windows_keep_to_the_budget(tmp_path: Path) -> None:
    other = watched(tmp_path, script(tmp_path, STEPS_100), "--every", "10", "--budget", "0.0001")
    assert (other.status, other.stderr) == (0, "")
    assert (states(tmp_path), codes(tmp_path)) == (["written"], ["budget"])


@needs_torch
def test_after_two_failures_in_a_row_capture_stops(tmp_path: Path) -> None:
    other = watched(tmp_path, script(tmp_path, STEPS_100), "--every", "20", "--budget", "100%", "--max-disk", "1")
    assert (other.status, other.stderr) == (0, "")
    assert (states(tmp_path), codes(tmp_path)) == (["no space", "no space"], ["stopped"])


@needs_torch
def test_the_folder_keeps_to_its_share_of_the_disk(tmp_path: Path) -> None:
    options = ("--every", "12", "--budget", "100%", "--max-disk", "110K")
    assert watched(tmp_path, script(tmp_path, STEPS_100), *options).status == 0
    sizes = [window["size_bytes"] for _, _, window in written(tmp_path / "watched/run")]
    assert sizes
    assert sum(sizes) <= 110 << 10
    assert states(tmp_path)[len(sizes) :] == ["no space", "no space"]


@needs_torch
def test_a_window_that_takes_too_much_memory_ends_early(tmp_path: Path) -> None:
    """The limit is such that any recording is above it."""
    options = ("--steps", "40", "--max-memory", "1KB")
    other = watched(tmp_path, script(tmp_path, STEPS_100), *options)
    assert (other.status, other.stderr) == (0, "")
    (window,) = rank_of(tmp_path)["windows"]
    assert window["state"] == "written"
    assert 1 <= window["steps"] < 40
    assert codes(tmp_path) == ["cut-short"]


# --- P8, P13: beside the job ------------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize("option", ["--no-fork", pytest.param("--memory", marks=pytest.mark.slow)])
def test_the_record_says_how_long_the_job_stood_still(option: str, tmp_path: Path) -> None:
    other = watched(tmp_path, script(tmp_path, STEPS_100), option)
    assert (other.status, other.stdout, other.stderr, other.processes) == (0, "", "", ())
    (window,) = rank_of(tmp_path)["windows"]
    assert window["state"] == "written"
    assert window["stall_ns"] > 0
    assert window["writing_ns"] > 0


# --- P10, P11, P15: signals -------------------------------------------------------------------------------------------

HANDLED = (
    TRAIN
    + """
def handle(number, frame):
    print("the script's own handler")
    sys.exit(3)

signal.signal(signal.SIGTERM, handle)
for step in range(1, 12):
    train()
os.kill(os.getpid(), signal.SIGTERM)
"""
)


@needs_torch
def test_sigterm_in_a_window_saves_it_and_calls_the_scripts_handler(tmp_path: Path) -> None:
    bare, other = both(tmp_path, HANDLED)
    assert (bare.status, bare.stdout) == (3, "the script's own handler\n")
    check_same(bare, other)
    assert states(tmp_path) == ["written"]


KILLED = (
    TRAIN
    + """
for step in range(1, 13):
    train()
model(torch.ones(4, 8))  # which closes the window
os.kill(os.getpid(), signal.SIGKILL)
"""
)


@needs_torch
def test_a_job_killed_while_its_trace_is_written_leaves_the_trace(tmp_path: Path) -> None:
    bare, other = both(tmp_path, KILLED)
    assert bare.status == -signal.SIGKILL
    check_same(bare, other)
    assert states(tmp_path) == ["written"]


HANGS = (
    TRAIN
    + """
import ctypes

for step in range(1, 12):
    train()
lock, libc = ctypes.create_string_buffer(64), ctypes.CDLL(None)
libc.pthread_mutex_lock(lock)
print("hangs", flush=True)
libc.pthread_mutex_lock(lock)
"""
)


def start(words: list[str], folder: Path, lines: int = 1) -> tuple[subprocess.Popen[str], str]:
    """Until the job says that it hangs, in each of its processes."""
    (folder / "tmp").mkdir(parents=True)
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment(folder / "tmp", mark)
    )
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(lines)] == ["hangs\n"] * lines
    return process, mark


def start_until_it_hangs(tmp_path: Path, text: str) -> tuple[subprocess.Popen[str], str]:
    job = script(tmp_path, text)
    return start([*redline_run(tmp_path / "watched/run"), "--", str(job)], tmp_path / "watched")


def end_of(process: subprocess.Popen[str]) -> tuple[int, float]:
    began_s = time.monotonic()
    process.communicate(timeout=180)
    return process.returncode, time.monotonic() - began_s


@needs_torch
@pytest.mark.parametrize(
    "hang", ["libc.pthread_mutex_lock(lock)", pytest.param("time.sleep(100)", marks=pytest.mark.slow)]
)
def test_sigterm_ends_a_job_that_hangs_in_a_window_within_five_seconds(hang: str, tmp_path: Path) -> None:
    process, mark = start_until_it_hangs(tmp_path, HANGS[: HANGS.rindex("libc.")] + hang)
    time.sleep(0.5)  # it says so just before
    process.send_signal(signal.SIGTERM)
    status, seconds = end_of(process)
    assert status == -signal.SIGTERM
    assert seconds < 5
    assert list(marked(mark)) == []
    # On a busy machine the signal may still come before the hang: then there was time to write.
    assert states(tmp_path) in ([["written"]] if "time" in hang else [["killed"], ["written"]])


PREEMPTED = (
    TRAIN
    + """
for step in range(1, 12):
    train()
sys.stdout.write("hangs\\n")
sys.stdout.flush()
time.sleep(100)
"""
)


@needs_torch
def test_a_preempted_job_of_torchrun_leaves_the_traces_of_all_ranks(tmp_path: Path) -> None:
    job = str(script(tmp_path, PREEMPTED))
    ends = []
    for name, words in (
        ("bare", [sys.executable, "-m", "torch.distributed.run"]),
        ("watched", redline_run(tmp_path / "watched/run")),
    ):
        process, mark = start([*words, "--nproc-per-node", "2", job], tmp_path / name, lines=2)
        process.send_signal(signal.SIGTERM)
        status, seconds = end_of(process)
        ends.append(status)
        assert seconds < 10
        assert gone(mark)
    assert ends[0] == ends[1]
    assert sorted(rank for rank, _, _ in written(tmp_path / "watched/run")) == [0, 1]


def gone(mark: str, within_s: float = 5.0) -> bool:
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        if not list(marked(mark)):
            return True
        time.sleep(0.05)
    return False


@needs_torch
def test_nothing_is_left_when_the_watcher_is_killed(tmp_path: Path) -> None:
    process, mark = start_until_it_hangs(tmp_path, HANGS)
    process.kill()
    assert end_of(process)[0] == -signal.SIGKILL
    assert gone(mark)
    assert not [*(tmp_path / "watched").rglob("*.gz*")]


# --- P12: no collective of ours ---------------------------------------------------------------------------------------


# Lever `bf16-hook`, where a user asks for it: it does what DDP itself would do.
EXCHANGE = "received = dist.all_reduce(sent, group=group, async_op=True).get_future()"


def test_no_collective_is_called_in_the_users_process() -> None:
    """The number of collectives that jobs took part in is compared by every case of several processes, too."""
    names = re.compile(r"\b(barrier|monitored_barrier|all_reduce|all_gather\w*|broadcast\w*|gather\w*|scatter\w*"
                       r"|reduce\w*|all_to_all\w*|send|recv|isend|irecv|new_group)\(")  # fmt: skip
    found = [
        (path.name, line.strip())
        for path in (ROOT / "src/redline/capture/worker").rglob("*.py")
        for line in path.read_text().splitlines()
        if names.search(line) and "gather_facts" not in line
    ]
    assert found == [("distributed.py", EXCHANGE)]
