"""Trains a tiny model for 30 steps, on one process or on several with gloo, and meets a fault at a place of choice.

Every loss is printed to its last bit. A fault that fires adds a line to a file, so that a test knows that it did.
"""

import argparse
import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from descent import Descent, average_gradients
from torch.utils.data import DataLoader, TensorDataset

STEPS = 30
STEP_S = 0.01
PLACES = {"before": 5, "in": 11, "after": 20}  # a window of three steps after the ninth is of steps 10 to 12
PEERS_WAIT_S = 60.0
HOLDS_GIL_US = 1_000_000
STOPPED_S = 1.5
FOR_WRITERS_S = 2.0  # that traces may take to be written beside the job, before their folder suffers
ALARM_S = 0.001
MIB = 1 << 20


class Alarm(Exception):  # noqa: N818 (what the handler of a signal raises)
    """Raised wherever the script happens to be."""


def say(text: str) -> None:
    """One write for one line: processes that share a pipe do not tear each other's lines."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


# --- faults that end the process --------------------------------------------------------------------------------------


def exception() -> None:
    raise ValueError("the script is wrong")


def exit7() -> None:
    sys.exit(7)


def os_exit() -> None:
    os._exit(3)


def sigkill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sigterm() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def sigint() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def sigsegv() -> None:
    ctypes.string_at(0)


def abort() -> None:
    os.abort()


def oom() -> None:
    """Nothing is left when the script dies, not even for those who clean up after it."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + 64 * MIB
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    held = []
    while True:
        held.append(torch.ones(MIB))


# --- faults that the process outlives ---------------------------------------------------------------------------------


def sigstop() -> None:
    """Stand still until somebody else wakes us."""
    waker = subprocess.Popen(["sh", "-c", f"sleep {STOPPED_S}; kill -CONT {os.getpid()}"])
    os.kill(os.getpid(), signal.SIGSTOP)
    waker.wait()


def lock_gil() -> None:
    ctypes.PyDLL(None).usleep(HOLDS_GIL_US)


def fsize() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def disk_full(folder: Path) -> None:
    """Use up what the disk can still name; the disk must be one with few names."""
    if not folder.is_dir():
        return
    for number in range(10_000):
        try:
            (folder / f"fill-{number}").touch()
        except OSError:
            return
    raise AssertionError("the disk was to be full by now")


def read_only(folder: Path) -> None:
    if folder.is_dir():
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)


def deleted(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def forks() -> None:
    """Children of every kind; nobody else's child is ever met."""
    child = os.fork()
    if child == 0:
        torch.ones(8).sum()
        if dist.is_initialized():  # its threads are not in the child: an orderly end would wait for them
            os._exit(0)
        sys.exit(0)
    pid, status = os.wait()
    say(f"waited for the child: {pid == child} {status}")
    data = TensorDataset(torch.arange(12.0))
    for way in ("fork", "spawn"):
        loader = DataLoader(data, batch_size=4, num_workers=1, multiprocessing_context=way)
        say(f"{way}: {[float(batch.sum()) for (batch,) in loader]}")


# --- training ---------------------------------------------------------------------------------------------------------


class Profiled:
    """The script's own profiler, for two steps after the place of the fault, and a look at what it wrote."""

    def __init__(self, first_step: int) -> None:
        self._path = Path(tempfile.mkdtemp(prefix="own-")) / "own.json"
        self.profiler = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU],
            schedule=torch.profiler.schedule(wait=first_step - 1, warmup=1, active=2, repeat=1),
            on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(self._path)),
        )

    def check(self) -> None:
        names = [event.get("name", "") for event in json.loads(self._path.read_text())["traceEvents"]]
        steps = sum(name.startswith("ProfilerStep#") for name in names)
        say(f"own trace: {steps} steps, {names.count('aten::addmm')} products")
        shutil.rmtree(self._path.parent)


def ring(number: int, frame: object) -> None:
    raise Alarm


def interrupted(model: torch.nn.Module, data: torch.Tensor) -> torch.Tensor:
    """An alarm goes off soon after the model is called, wherever the process is then; after that it is called again."""
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, ALARM_S)
        model(data)
        while True:
            time.sleep(1)
    except Alarm:
        say("the alarm rang")
    signal.signal(signal.SIGALRM, before)
    return called(model, data)


def called(model: torch.nn.Module, data: torch.Tensor) -> torch.Tensor:
    output: torch.Tensor = model(data)
    return output


FAULTS = {
    one.__name__: one
    for one in (
        exception, exit7, os_exit, sigkill, sigterm, sigint, sigsegv, abort, oom, sigstop, lock_gil, fsize, forks,
    )
}  # fmt: skip
ON_FOLDER = {one.__name__: one for one in (disk_full, read_only, deleted)}


class Injector:
    """The fault that was asked for, at its step and on its rank."""

    def __init__(self, options: argparse.Namespace, rank: int) -> None:
        self.fault: str = options.fault if rank == options.rank else "clean"
        self.step = PLACES[options.at]
        if self.fault == "async_exc" and options.at == "in":
            self.step += 2  # the end of the window, where most is done that an alarm could disturb
        self._folder = Path(options.folder)
        self._fired = Path(options.fired)
        self._line = f"{options.fault} {options.at} {rank}\n"

    def is_due(self, step: int) -> bool:
        due = step == self.step and self.fault != "clean"
        if due:
            with self._fired.open("a") as file:
                file.write(self._line)
        return due

    def fire(self) -> None:
        if self.fault in FAULTS:
            FAULTS[self.fault]()
        elif self.fault in ON_FOLDER:
            if self.step > PLACES["in"]:
                time.sleep(FOR_WRITERS_S)
            ON_FOLDER[self.fault](self._folder)


def train(rank: int, world: int, injector: Injector) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = Descent(model.parameters(), lr=0.01)
    torch.manual_seed(1 + rank)
    own = Profiled(injector.step) if injector.fault == "own_profiler" else None
    with own.profiler if own else nullcontext() as profiler:
        for step in range(1, STEPS + 1):
            due = injector.is_due(step)
            if due:
                injector.fire()
            time.sleep(STEP_S)
            call = interrupted if due and injector.fault == "async_exc" else called
            loss = call(model, torch.randn(16, 32)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            if world > 1:
                average_gradients(model)
            optimizer.step()
            say(f"rank {rank} step {step} loss {float(loss.detach()).hex()}")
            if profiler is not None:
                profiler.step()
    if own:
        own.check()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", default="clean")
    parser.add_argument("--at", choices=PLACES, default="in")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--folder", required=True, help="where the run's files would go")
    parser.add_argument("--fired", required=True, help="gets a line when the fault fires")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        dist.init_process_group("gloo")
    try:
        train(rank, world, Injector(options, rank))
    except RuntimeError:
        if world == 1 or rank == options.rank:
            raise
        time.sleep(PEERS_WAIT_S)  # the peer is gone; the launcher will end us, always in the same way
    if world > 1:
        group: Any = dist.group.WORLD
        say(f"rank {rank} took part in {group._get_sequence_number_for_group()} collectives")
        dist.destroy_process_group()
    say(f"rank {rank} is done")


if __name__ == "__main__":
    main()
