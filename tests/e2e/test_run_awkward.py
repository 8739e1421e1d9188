"""Scripts that are awkward for whoever watches them behave under `redline run` as they do without."""

import gzip
import signal
import sys
from pathlib import Path

import pytest

from tests.support.fault_cases import record_of, redline_run, run
from tests.support.promises import TRAIN, both, check_same, codes, needs_torch, rank_of, script, states, watched

# --- the script's own world -------------------------------------------------------------------------------------------

VARIABLES = (
    TRAIN
    + """
import weakref

class Large:
    pass

def main(rate=0.1, name="x"):
    settings = locals()
    large = Large()
    known = weakref.ref(large)
    for step in range(20):
        train()
    del large
    print(known(), sorted(settings))

main()
"""
)


@needs_torch
def test_variables_of_the_script_are_neither_kept_alive_nor_written_to(tmp_path: Path) -> None:
    bare, other = both(tmp_path, VARIABLES)
    assert bare.stdout == "None ['name', 'rate']\n"
    check_same(bare, other)
    assert states(tmp_path) == ["written"]
    assert rank_of(tmp_path)["facts"]["model"]["module"] == "Linear"


LOOKED_FOR = (
    """
import importlib.util
print(importlib.util.find_spec("torch") is not None)
"""
    + TRAIN
    + """
class Equal(Descent):  # which makes it one that has no hash
    def __eq__(self, other):
        return True

print(type(torch.__spec__))
optimizer = Equal(model.parameters(), lr=0.1)
for step in range(20):
    print(train())
"""
)


@needs_torch
@pytest.mark.slow
def test_torch_may_be_looked_for_before_and_optimizers_need_no_hash(tmp_path: Path) -> None:
    bare, other = both(tmp_path, LOOKED_FOR)
    assert bare.status == 0
    check_same(bare, other)
    assert (rank_of(tmp_path)["steps"], states(tmp_path), codes(tmp_path)) == (20, ["written"], [])


@pytest.mark.parametrize("error", ["RuntimeError", "ImportError", "KeyboardInterrupt"])
def test_the_traceback_of_a_torch_that_cannot_be_imported_is_the_same(error: str, tmp_path: Path) -> None:
    script(tmp_path / "job/torch", f"def fail():\n    raise {error}('no library')\n\nfail()\n", "__init__.py")
    bare, other = both(tmp_path, "import torch\n")
    assert "no library" in bare.stderr
    check_same(bare, other)


BY_VALUE = """
import pickle, torch

class Net(torch.nn.Module):
    def forward(self, data):
        return data + 1

net = Net()
with torch.inference_mode():
    for step in range(30):
        net(torch.ones(2))
print(pickle.loads(pickle.dumps(vars(Net).get("_compiled_call_impl"))))
print(torch.jit.script(net)(torch.ones(2)))
"""


@needs_torch
@pytest.mark.slow
def test_the_class_of_a_model_may_be_pickled_by_value(tmp_path: Path) -> None:
    bare, other = both(tmp_path, BY_VALUE)
    assert bare.status == 0
    check_same(bare, other)
    assert rank_of(tmp_path)["step_kind"] == "calls"


# --- signals ----------------------------------------------------------------------------------------------------------

ASYNCHRONOUS = (
    TRAIN
    + """
import asyncio

async def main():
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for step in range(1, 20):
        train()
        if step == 10:  # in the window
            loop.add_signal_handler(signal.SIGUSR1, told.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    await asyncio.wait_for(told.wait(), 10)
    print("told")

asyncio.run(main())
"""
)


@needs_torch
@pytest.mark.slow
def test_asyncio_hears_signals_that_it_asked_for_in_a_window(tmp_path: Path) -> None:
    bare, other = both(tmp_path, ASYNCHRONOUS)
    assert (bare.status, bare.stdout) == (0, "told\n")
    check_same(bare, other)
    assert states(tmp_path) == ["written"]


ANOTHER_PROGRAM = """
import os, sys, time
if len(sys.argv) == 1:
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:], "again"])
time.sleep(3)
print("still here")
"""


def test_a_script_that_became_another_program_is_not_asked_for_its_stacks(tmp_path: Path) -> None:
    """The signal that asks would end it."""
    bare, other = both(tmp_path, ANOTHER_PROGRAM, "--stall-after", "0.2")
    assert (bare.status, bare.stdout) == (0, "still here\n")
    check_same(bare, other)


@pytest.mark.parametrize("number", [signal.SIGRTMIN + 5, signal.SIGABRT, signal.SIGXCPU])
def test_any_signal_that_ends_the_job_ends_us_without_stdout_too(number: int, tmp_path: Path) -> None:
    text = f"import os; os.kill(os.getpid(), {int(number)})\n"
    words = ["sh", "-c", 'exec "$0" "$@" >&-']
    job = str(script(tmp_path, text))
    bare = run([*words, sys.executable, job], tmp_path / "bare")
    other = run([*words, *redline_run(tmp_path / "watched/run"), "--", job], tmp_path / "watched")
    assert bare.status == -number
    check_same(bare, other)


ASKED = """
import os, signal
told = []
for number in (signal.SIGXCPU, signal.SIGRTMIN + 5, signal.SIGUSR1):
    signal.signal(number, lambda number, frame: told.append(int(number)))
parent = PARENT
for number in (signal.SIGXCPU, signal.SIGRTMIN + 5, signal.SIGUSR1):
    os.kill(parent, number)
    while number not in told:
        signal.sigtimedwait([], 0.01)
print(told)
"""


def test_signals_of_batch_systems_are_handed_on(tmp_path: Path) -> None:
    bare = run([sys.executable, str(script(tmp_path, ASKED.replace("PARENT", "os.getpid()")))], tmp_path / "bare")
    job = script(tmp_path, ASKED.replace("PARENT", "os.getppid()"))
    check_same(bare, run([*redline_run(tmp_path / "watched/run"), "--", str(job)], tmp_path / "watched"))


# --- descriptors ------------------------------------------------------------------------------------------------------

CLOSES = (
    TRAIN
    + """
import tempfile

os.closerange(3, 256)
files = [tempfile.TemporaryFile() for _ in range(8)]
for step in range(4200):  # more than have room from the start
    optimizer.step()
print([os.fstat(one.fileno()).st_size for one in files])
"""
)


@needs_torch
def test_a_script_may_close_every_descriptor_and_use_the_numbers_again(tmp_path: Path) -> None:
    bare, other = both(tmp_path, CLOSES)
    assert (bare.status, bare.stdout) == (0, "[0, 0, 0, 0, 0, 0, 0, 0]\n")
    check_same(bare, other)
    assert rank_of(tmp_path)["steps"] == 4200


NO_FILES_LEFT = (
    TRAIN
    + """
for step in range(20):
    train()
kept = []
while True:
    kept.append(open(os.devnull))
"""
)


@needs_torch
@pytest.mark.slow
def test_a_job_that_has_no_files_left_ends_with_its_own_error(tmp_path: Path) -> None:
    bare, other = both(tmp_path, NO_FILES_LEFT)
    assert "Too many open files" in bare.stderr
    check_same(bare, other)
    assert rank_of(tmp_path)["finished"]


STREAMS = """
import os, sys
found = []
for number in (0, 1, 2):
    try:
        found.append(os.readlink(f"/proc/self/fd/{number}"))
    except OSError:
        found.append("closed")
with open(sys.argv[1], "w") as file:
    print(found[0], found[1], found[2].startswith("/proc"), sys.stdin, file=file)
"""


def test_streams_that_are_closed_stay_closed(tmp_path: Path) -> None:
    job = str(script(tmp_path, STREAMS))
    words = ["sh", "-c", 'exec "$0" "$@" <&- >&-']
    run([*words, sys.executable, job, str(tmp_path / "bare.txt")], tmp_path / "bare")
    watcher = redline_run(tmp_path / "watched/run")
    run([*words, *watcher, "--", job, str(tmp_path / "watched.txt")], tmp_path / "watched")
    assert (tmp_path / "bare.txt").read_text() == "closed closed False None\n"
    assert (tmp_path / "watched.txt").read_text() == (tmp_path / "bare.txt").read_text()


# --- threads and warnings ---------------------------------------------------------------------------------------------

IN_A_THREAD = (
    TRAIN
    + """
import warnings

def work():
    for step in range(int(sys.argv[1])):
        warnings.warn("once is enough")
        print(train())

thread = threading.Thread(target=work)
thread.start()
thread.join()
print(float(model(torch.ones(4, 8)).sum()).hex())
"""
)


@needs_torch
@pytest.mark.parametrize(
    ("steps", "captured"),
    [pytest.param(20, 3, marks=pytest.mark.slow), (11, 2)],  # the thread ends in the midst of a window
)
def test_training_beside_the_main_thread_is_captured_and_warns_as_often(
    tmp_path: Path, steps: int, captured: int
) -> None:
    bare, other = both(tmp_path, IN_A_THREAD.replace("sys.argv[1]", str(steps)))
    assert bare.stderr.count("once is enough") == 2  # the warning, and its line
    check_same(bare, other)
    assert (rank_of(tmp_path)["steps"], states(tmp_path)) == (steps, ["written"])
    assert rank_of(tmp_path)["windows"][0]["steps"] == captured


# --- steps that turn out to be others ---------------------------------------------------------------------------------

EVALUATES_FIRST = (
    TRAIN
    + """
with torch.no_grad():
    for _ in range(40):
        model(torch.ones(4, 8))
for step in range(20):
    train()
"""
)


@needs_torch
def test_a_window_of_an_evaluation_before_the_training_is_not_kept(tmp_path: Path) -> None:
    outcome = watched(tmp_path, script(tmp_path / "job", EVALUATES_FIRST))
    assert outcome.status == 0, outcome.stderr
    rank = rank_of(tmp_path)
    assert (rank["steps"], rank["step_kind"], states(tmp_path), codes(tmp_path)) == (20, "optimizer", ["written"], [])
    assert rank["facts"]["model"]["optimizers"] == ["Descent"]
    (trace,) = (tmp_path / "watched/run").rglob("*.trace.json.gz")
    assert trace == tmp_path / "watched/run" / rank["windows"][0]["path"]
    assert "Optimizer.step#Descent.step" in gzip.decompress(trace.read_bytes()).decode()


# --- memory -----------------------------------------------------------------------------------------------------------

OUT_OF_MEMORY = (
    TRAIN
    + """
def grow():
    held = [torch.zeros(1000, 25) for _ in range(40)]
    return held, torch.empty(1 << 60)

train()
grow()
"""
)


@needs_torch
def test_what_filled_the_memory_when_it_ran_out_is_in_the_record(tmp_path: Path) -> None:
    bare, other = both(tmp_path, OUT_OF_MEMORY)
    assert "can't allocate memory" in bare.stderr
    check_same(bare, other)
    largest, *others = rank_of(tmp_path)["facts"]["out_of_memory"]
    assert largest == {"shape": [1000, 25], "type": "float32", "bytes": 100_000, "count": 40}
    assert {"shape": [8, 8], "type": "float32", "bytes": 256, "count": 1} in others


# --- children ---------------------------------------------------------------------------------------------------------

FORKS = (
    TRAIN
    + """
from torch.utils.data import DataLoader

def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def evaluate():
    for batch in DataLoader(torch.ones(8, 8)):
        model(batch)
    before, one = resident_bytes(), torch.ones(4)
    for _ in range(30_000):
        one.add(1)
    os._exit((resident_bytes() - before) >> 24)

for step in range(1, 21):
    train()
    if step in (8, 9, 10, 11, 12):
        child = os.fork()
        if not child:
            evaluate()
        print(step, os.waitpid(child, 0)[1])
"""
)


@needs_torch
def test_processes_that_are_forked_in_a_window_leave_it_alone_and_record_nothing(tmp_path: Path) -> None:
    bare, other = both(tmp_path, FORKS)
    assert bare.stdout == "8 0\n9 0\n10 0\n11 0\n12 0\n"
    check_same(bare, other)
    assert (states(tmp_path), codes(tmp_path)) == (["written"], [])
    assert record_of(tmp_path / "watched/run")["ranks"][0]["batches"] == 0


ORPHANS = """
import ctypes, os, signal, time

told = []
started, hear = os.pipe()
if os.fork() == 0:
    ctypes.CDLL(None).prctl(1, signal.SIGUSR1, 0, 0, 0)  # when its parent ends
    signal.signal(signal.SIGUSR1, lambda *_: told.append(1))
    os.write(hear, b"x")
    time.sleep(1.5)
    time.sleep(0.5)
    os.write(1, f"told {len(told)} times\\n".encode())
    os._exit(0)
os.read(started, 1)
"""


def test_children_that_outlive_the_job_are_told_once_that_it_ended(tmp_path: Path) -> None:
    """As torch.multiprocessing has it. Who adopts them must not end after it: they would be told again."""
    job = script(tmp_path / "job", ORPHANS)
    words = ["bash", "-c", '"$@" | cat', "bash"]  # which waits until the last of them has closed its output
    bare = run([*words, sys.executable, str(job)], tmp_path / "bare")
    other = run([*words, *redline_run(tmp_path / "watched/run"), "--", str(job)], tmp_path / "watched")
    assert (bare.stdout, other.stdout) == ("told 1 times\n", "told 1 times\n")
