"""Of the programs that a job starts, ranks are watched, and all others start as the script says."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from redline.capture.run_record import RunRecord
from redline.capture.settings import Settings
from redline.capture.shared_state import (
    BY_CALLS,
    BY_NOTHING,
    BY_OPTIMIZER,
    KIND,
    OFFSPRING,
    PID,
    RANK,
    RESTART,
    STATE,
    STEPS,
    WRITTEN,
    SharedState,
)
from redline.capture.supervisor.command import command
from redline.capture.supervisor.run_folder import leave_behind
from redline.capture.supervisor.supervise import Supervisor
from redline.capture.worker.process_context import ProcessContext

# Each child says whether it was begun to be watched, and whether it can see that in its environment.
CHILD = (
    "import os, sys; seen = [name for name in ('REDLINE_WORKER', 'REDLINE_PYTHONPATH') if name in os.environ];"
    "print('redline.capture.worker.start_watching' in sys.modules, seen or 'boot' in os.environ.get('PYTHONPATH', ''))"
)
PARENT = f"""
import multiprocessing, os, subprocess, sys
from redline.capture.worker.child_ranks import follow
from redline.capture.settings import Settings

CHILD = {CHILD!r}

def work(name):
    assert os.environ["PYTHONWARNINGS"] == "error"
    print(name, end=" ")
    exec(CHILD)
    sys.stdout.flush()

def start(name, program=sys.executable, flags=(), **extra):
    print(name, end=" ", flush=True)
    subprocess.run([program, *flags, "-c", CHILD], env={{**os.environ, **extra}}, check=True)

if __name__ == "__main__":
    follow(Settings({{"board": "/proc/none", "slots": 1}}))
    start("launched", LOCAL_RANK="1")
    start("accelerated", ACCELERATE_MIXED_PRECISION="no")
    start("helper")
    start("isolated", flags=["-I"], LOCAL_RANK="1")
    start("renamed", program=sys.argv[1], LOCAL_RANK="1")
    os.environ["LOCAL_RANK"] = "0"
    start("helper-of-rank-0")
    start("rank-1", LOCAL_RANK="1")
    os.putenv("PYTHONWARNINGS", "error")  # as a library of C may: only children see it
    for name, daemon in (("spawned", False), ("worker", True)):
        process = multiprocessing.get_context("spawn").Process(target=work, args=(name,), daemon=daemon)
        process.start()
        process.join()
"""


def test_ranks_are_watched_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    other = tmp_path / "interpreter"
    other.symlink_to(sys.executable)
    words = [sys.executable, str(tmp_path / "parent.py"), str(other)]
    environment = {name: value for name, value in os.environ.items() if name != "LOCAL_RANK"}
    told = subprocess.run(words, capture_output=True, text=True, check=True, timeout=180, env=environment)
    assert told.stderr == ""
    assert dict(line.split(" ", 1) for line in told.stdout.splitlines()) == {
        "launched": "True False",
        "accelerated": "True False",
        "helper": "False False",
        "isolated": "False False",
        "renamed": "False False",
        "helper-of-rank-0": "False False",
        "rank-1": "True False",
        "spawned": "True False",
        "worker": "False False",
    }


FAILS = """
import subprocess, traceback
from redline.capture.worker.child_ranks import follow
from redline.capture.settings import Settings

follow(Settings({}))
for words in (["echo", 5], ["echo", "a" + chr(0)], ["/nowhere"]):
    try:
        subprocess.run(words)
    except Exception:
        traceback.print_exc()
"""


def test_no_traceback_shows_a_frame_of_ours(tmp_path: Path) -> None:
    told = subprocess.run([sys.executable, "-c", FAILS], capture_output=True, text=True, check=True, timeout=180)
    assert told.stderr.count("Traceback") == 3
    assert "redline" not in told.stderr


RAYLET = f"""#!/bin/sh
"{sys.executable}" -c 'import os; print("helper", "REDLINE_WORKER" in os.environ)'
"{sys.executable}" "$1/default_worker.py"
"""


def test_workers_of_ray_are_told_from_its_helpers(tmp_path: Path) -> None:
    """Its daemon is no Python, and starts both."""
    daemon = tmp_path / "raylet"
    daemon.write_text(RAYLET)
    daemon.chmod(0o755)
    (tmp_path / "default_worker.py").write_text(CHILD)
    start = (
        "import os, subprocess; from redline.capture.worker.child_ranks import follow;"
        "from redline.capture.settings import Settings; follow(Settings({'board': '/proc/none', 'slots': 1}));"
        f"subprocess.run([{str(daemon)!r}, {str(tmp_path)!r}], env=dict(os.environ), check=True)"
    )
    told = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, check=True, timeout=180)
    assert told.stdout == "helper True\nTrue False\n"


def test_children_of_a_worker_of_ray_are_told_from_others_as_those_of_any_process() -> None:
    start = (
        "import os, subprocess, sys; from redline.capture.worker.child_ranks import follow;"
        "from redline.capture.settings import Settings;"
        "follow(Settings({'board': '/proc/none', 'slots': 1, 'launcher': 'ray'}));"
        f"subprocess.run([sys.executable, '-c', {CHILD!r}], env={{**os.environ, 'LOCAL_RANK': '1'}}, check=True)"
    )
    told = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, check=True, timeout=180)
    assert told.stdout == "True False\n"


def settle(shared: SharedState, number: int, rank: int, kind: int = BY_OPTIMIZER) -> tuple[int, str]:
    """Of a process with this slot: how often the rank was there before, and its folder."""
    shared.slot(number).words[KIND] = kind
    context = ProcessContext(shared, number, shared.slot(number), Settings({"folder": "/run", "offspring": True}))
    context.settle(rank)
    context.settle(rank)  # which changes nothing
    return context.slot.words[RESTART], context.settings.folder


def test_of_ranks_with_the_same_number_later_ones_have_a_folder_of_their_own() -> None:
    shared = SharedState.make(5)
    for number in range(5):
        shared.claim(number)
    assert settle(shared, 1, rank=0) == (0, "/run")
    assert settle(shared, 2, rank=1) == (0, "/run")
    assert settle(shared, 3, rank=0) == (1, "/run/restart-1")
    assert settle(shared, 4, rank=0) == (2, "/run/restart-2")


def test_who_only_calls_a_model_gives_way_to_who_trains() -> None:
    shared = SharedState.make(4)
    for number in range(4):
        shared.claim(number)
    assert settle(shared, 0, rank=0, kind=BY_CALLS) == (0, "/run")
    assert settle(shared, 1, rank=0) == (0, "/run")
    assert settle(shared, 2, rank=0, kind=BY_CALLS) == (2, "/run/restart-2")


def test_a_board_that_somebody_holds_is_waited_for_and_then_used() -> None:
    shared = SharedState.make(2)
    with SharedState.open(shared.path, 2).locked():
        began_s = time.monotonic()
        with shared.locked():
            pass
        assert 0.9 < time.monotonic() - began_s < 30
    with shared.locked():
        pass


@pytest.mark.parametrize(
    ("kinds", "ranks"),
    [
        ({0: BY_OPTIMIZER}, [0]),
        ({0: BY_NOTHING}, [0]),
        ({0: BY_NOTHING, 1: BY_NOTHING}, [0]),  # nobody takes steps: the job is its first process
        ({0: BY_NOTHING, 1: BY_OPTIMIZER, 2: BY_OPTIMIZER, 3: BY_NOTHING}, [1, 2]),
        ({0: BY_OPTIMIZER, 1: BY_OPTIMIZER}, [0, 1]),
        ({0: BY_CALLS, 1: BY_OPTIMIZER, 2: BY_OPTIMIZER}, [1, 2]),  # it evaluates afterwards
        ({0: BY_OPTIMIZER, 1: BY_CALLS, 2: BY_CALLS}, [0]),  # they make its data
        ({0: BY_NOTHING, 1: BY_CALLS, 2: BY_CALLS}, [1, 2]),
    ],
)
def test_ranks_are_told_from_helpers(kinds: dict[int, int], ranks: list[int], tmp_path: Path) -> None:
    shared = SharedState.make(4)
    supervisor = Supervisor(command(None, ["job.py"]), Settings({}), shared, lambda: None)
    for number, kind in kinds.items():
        slot = shared.claim(number)
        slot.words[PID], slot.words[OFFSPRING], slot.words[RANK] = 1000 + number, number > 0, number
        slot.words[KIND], slot.words[STEPS] = kind, 12 if kind else 0
        slot.new_window(1)[STATE] = WRITTEN
        trace = tmp_path / f"window-1/rank-{number}.trace.json.gz"
        trace.parent.mkdir(exist_ok=True)
        trace.touch()
    slots, helpers = supervisor.slots(), supervisor.helpers()
    assert [slot.words[RANK] for slot in slots] == ranks
    assert {slot.words[RANK] for slot in helpers} == kinds.keys() - set(ranks)
    leave_behind(tmp_path, RECORD, slots, helpers, None)
    assert sorted(path.name for path in tmp_path.glob("window-1/*")) == [f"rank-{n}.trace.json.gz" for n in ranks]


RECORD = RunRecord(
    command=("job.py",), folder="", launcher="python", world=1, started="", wall_ns=1, exit_code=0, signal=None,
    ranks=(), machine={}, settings={},
)  # fmt: skip


def test_a_trace_of_a_helper_that_a_rank_has_replaced_stays(tmp_path: Path) -> None:
    shared = SharedState.make(2)
    slots = [shared.claim(number) for number in range(2)]
    for slot in slots:  # both as rank 0, which is the order in which they settled
        slot.new_window(1)[STATE] = WRITTEN
    slots[0].new_window(2)[STATE] = WRITTEN
    for number in (1, 2):
        (tmp_path / f"window-{number}").mkdir()
        (tmp_path / f"window-{number}/rank-0.trace.json.gz").touch()
    leave_behind(tmp_path, RECORD, slots[1:], slots[:1], None)
    assert [path.name for path in tmp_path.glob("window-*")] == ["window-1"]


def claim_in_a_child(shared: SharedState, steps: int) -> None:
    """As a process does that the job has started, which is over afterwards."""
    child = os.fork()
    if child == 0:
        _, slot = SharedState.open(shared.path, shared.slots).claim_free()
        slot.words[OFFSPRING], slot.words[STEPS] = 1, steps
        os._exit(0)
    os.waitpid(child, 0)


def test_slots_of_processes_that_never_took_a_step_are_used_again() -> None:
    shared = SharedState.make(4)
    shared.claim(0).words[PID] = os.getpid()
    for steps in (0, 0, 5, 0, 7):
        claim_in_a_child(shared, steps)
    number, slot = shared.claim_free()
    assert (number, slot.words[STEPS], slot.words[OFFSPRING], slot.words[PID]) == (3, 0, 0, os.getpid())
    assert [shared.slot(at).words[STEPS] for at in (1, 2)] == [5, 7]
    with pytest.raises(OSError, match="too many processes"):
        shared.claim_free()
