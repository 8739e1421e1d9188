"""Runs when Python starts in a process of the job, puts everything back as it was, and begins to watch.

The launcher puts this folder in front of PYTHONPATH. So the interpreter itself starts the user's script, with the argv,
paths, tracebacks and exit codes that it always has. What stands here must never fail, nor be seen.
"""

import os
import sys

_SETTINGS = "REDLINE_WORKER"
_FORMER_PATH = "REDLINE_PYTHONPATH"


def _is_for_us() -> bool:
    """torchrun itself is Python too: it only hands the environment on to the processes that it starts.

    So are helpers of Ray, one of which becomes a worker.
    """
    kind = os.environ[_SETTINGS].partition(" ")[0]
    if kind == "ray":
        return "".join(sys.orig_argv[1:2]).endswith("/default_worker.py")  # before, it is setup_worker.py of Ray
    if kind != "elastic":
        return True
    from itertools import pairwise

    is_torchrun = ("-m", "torch.distributed.run") in pairwise(sys.orig_argv)  # options of Python may come first
    return "LOCAL_RANK" in os.environ and not is_torchrun


def _restore_environment() -> str:
    former = os.environ.pop(_FORMER_PATH, None)
    if former is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = former
    return os.environ.pop(_SETTINGS)


def _begin(settings: str) -> None:
    try:
        package = os.path.abspath(f"{_here}/../../..")  # noqa: PTH100 (pathlib is slow to import)
        sys.path.append(package)  # for a Python that Redline was not installed for
        try:
            from redline.capture.worker.start_watching import begin
        finally:
            sys.path.pop()  # the script's path may name it as well
        begin(settings.partition(" ")[2])
    except Exception:  # noqa: BLE001 (the job runs on unwatched; the watcher says so)
        pass


def _run_the_users_own() -> None:
    """Python takes the first sitecustomize that it finds; the one that would have been found comes now."""
    import importlib.util

    spec = importlib.util.find_spec("sitecustomize")
    if spec is None or spec.loader is None:
        raise ImportError("there is none", name="sitecustomize")  # as Python expects it where there is none
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _is_told_already() -> bool:
    """The watcher, which is Python too, has told what is wrong with the user's own: then its child does not."""
    text = os.environ.get(_SETTINGS, "")
    return '"sitecustomize_failed":true' in text and f'"board":"/proc/{os.getppid()}/' in text


_here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 (pathlib is slow to import)
sys.path[:] = [path for path in sys.path if path != _here]
_told = _is_told_already()
if _SETTINGS in os.environ and _is_for_us():
    _begin(_restore_environment())
sys.modules.pop("sitecustomize", None)
try:
    _run_the_users_own()
except Exception:
    if not _told:
        raise
    raise ImportError("it failed, as the watcher has said", name="sitecustomize") from None
