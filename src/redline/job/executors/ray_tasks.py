"""Tasks of Ray, on this machine or on a cluster that runs; Ray is an extra, and is imported here alone."""

import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, redirect_stdout, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from redline import __version__
from redline.errors import InputError, UsageError, first_line
from redline.job.executors.executor import ExecutorChoice, WorkerDied, processes_for
from redline.values import dataclass

Result = TypeVar("Result")
_INFLATES = 13  # times, a compressed trace
_BASE_BYTES = 256_000_000  # of a worker with everything imported, and a small trace
_STORE_BYTES = 256_000_000  # for results, of which each has about 100 kB
_ANSWERS_S = 5.0
_LOOPBACK = "127.0.0.2"  # Ray replaces 127.0.0.1 by an address that others can reach
_COMPRESSED = frozenset({".gz", ".zst", ".tgz"})


@dataclass(frozen=True, kw_only=True)
class NotDone:
    """Why a node could not begin with a file."""

    host: str
    version: str  # of Redline there
    is_visible: bool = True


class RayTasks(Generic[Result]):
    """Each file a task of one CPU with a bound on its memory. A Ray that was started here ends with the work."""

    def __init__(self, work: Callable[[Path], Result], choice: ExecutorChoice, files: int) -> None:
        self._work = work
        self._undo = ExitStack()
        address = choice.address or os.environ.get("RAY_ADDRESS")
        if address is None:
            _keep_to_ourselves()  # it counts only before Ray is imported
        self._ray = _imported()
        # Ray prints why a worker died on stdout, which belongs to results, until it is disconnected.
        self._undo.enter_context(redirect_stdout(sys.stderr))
        with self._undo.pop_all() as undo:
            if _connected(self._ray, address, min(processes_for(choice.jobs), files)):
                undo.callback(self._ray.shutdown)
            self._undo = undo.pop_all()
        resources = self._ray.cluster_resources()
        self.slots = choice.jobs or max(int(resources.get("CPU", 1)), 1)
        self._most_bytes = max((node["Resources"].get("memory", 0.0) for node in self._ray.nodes()), default=0.0)
        self._task_of: dict[Any, int] = {}
        self._path_of: dict[int, Path] = {}
        self._remote = self._ray.remote(num_cpus=1, max_retries=0)(on_node)
        self._shared_work = self._ray.put(work)

    def start(self, task: int, path: Path) -> None:
        self._path_of[task] = path
        memory = min(_memory_bytes(path), self._most_bytes)
        options = {"memory": int(memory)} if memory else {}
        result = self._remote.options(**options).remote(self._shared_work, path, Path.cwd(), __version__)
        self._task_of[result] = task

    def wait(self, timeout_s: float | None) -> Sequence[tuple[int, Result | InputError | WorkerDied]]:
        running = list(self._task_of)
        ready, _ = self._ray.wait(running, num_returns=1, timeout=timeout_s)
        if ready:
            ready, _ = self._ray.wait(running, num_returns=len(running), timeout=0)
        return [(task, self._outcome(task, result)) for result in ready for task in (self._task_of.pop(result),)]

    def abandon(self, task: int) -> None:
        for result, number in list(self._task_of.items()):
            if number == task:
                self._ray.cancel(result, force=True)
                del self._task_of[result]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for task in list(self._task_of.values()):
            self.abandon(task)
        self._undo.close()

    def _outcome(self, task: int, result: Any) -> Result | InputError | WorkerDied:
        """Raises UsageError where the workers of the cluster cannot run Redline: then no task can."""
        path = self._path_of.pop(task)
        errors = self._ray.exceptions
        try:
            outcome: Result | NotDone = self._ray.get(result)
        except (errors.RayTaskError, errors.RuntimeEnvSetupError) as error:
            raise UsageError(
                f"Ray's workers cannot run Redline: {_reason(error)}; install redline-perf=={__version__} on all nodes"
            ) from error
        except errors.RayError as error:  # its worker or its node is gone, or was ended for its memory
            return WorkerDied(f"died ({_reason(error)})")
        return explained(self._work, path, outcome) if isinstance(outcome, NotDone) else outcome


def explained(work: Callable[[Path], Result], path: Path, reason: NotDone) -> Result | InputError:
    """The stand-in for a file with which a node could not begin."""
    if reason.version != __version__:
        raise UsageError(
            f"Ray's worker on {reason.host} has Redline {reason.version}, and this is {__version__}: results would "
            "not be the same; install one version on all nodes"
        )
    if path.exists():
        return _not_visible(path, reason.host)
    return work(path)  # it is nowhere, and whoever reads it says so


def on_node(work: Callable[[Path], Result], path: Path, folder: Path, version: str) -> Result | NotDone:
    """The work, where Ray runs it: in the same folder, as results carry the path that the user wrote."""
    if version != __version__:
        return NotDone(host=socket.gethostname(), version=__version__)
    with suppress(OSError):  # then a relative path is not visible
        os.chdir(folder)
    if not path.exists():
        return NotDone(host=socket.gethostname(), version=__version__, is_visible=False)
    return work(path)


def _imported() -> Any:
    try:
        import ray
    except ImportError as error:
        raise UsageError("`executor=ray` needs Ray: pip install 'redline-perf[ray]'") from error
    return ray


def _keep_to_ourselves() -> None:
    """A Ray that is started here listens on all interfaces: it takes work only from who has its token, and reports
    nothing to anybody."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if "RAY_AUTH_MODE" not in os.environ:
        os.environ["RAY_AUTH_MODE"] = "token"  # Rays before 2.52 know no tokens
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def _connected(ray: Any, address: str | None, cores: int) -> bool:
    """Connect; true for a cluster or a Ray started for it, which has to be disconnected."""
    if ray.is_initialized():
        return False
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        own = {"include_dashboard": False, "object_store_memory": _STORE_BYTES, "_node_ip_address": _LOOPBACK}
        try:
            ray.init(address="local", num_cpus=cores, **own, **quiet)
        except Exception as error:  # of this class where its processes do not come up in time
            raise UsageError(
                f"Ray did not start on this machine: {_reason(error)}; leave `executor=ray` out, or give the address "
                "of a cluster that runs"
            ) from error
        return True
    try:
        _refuse_unless_answered(address)
        ray.init(address=address, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(
            f"no Ray cluster at {address}: {_reason(error)}; give the address of its head, and its token in "
            "RAY_AUTH_TOKEN if it has one, or leave `address=...` out to start one on this machine"
        ) from error
    return True


def _refuse_unless_answered(address: str) -> None:
    """OSError where nothing listens: Ray itself would try for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWERS_S).close()


def _memory_bytes(path: Path) -> int:
    """The most memory that a worker needs: a quarter of the text of a trace, beyond what it has imported."""
    try:
        size_bytes = path.stat().st_size
    except OSError:  # it is not visible here
        size_bytes = 0
    return _BASE_BYTES + size_bytes * (_INFLATES if path.suffix in _COMPRESSED else 1) // 4


def _not_visible(path: Path, host: str) -> InputError:
    return InputError(
        f"{path}: is not visible on {host}, where Ray read it; put the traces on a file system that all nodes mount, "
        "or run `redline digest` on each node and diagnose the digests"
    )


def _reason(error: Exception) -> str:
    """In one line; of an error in a task its own, not the traceback that Ray makes of it."""
    return first_line(getattr(error, "cause", None) or error)
