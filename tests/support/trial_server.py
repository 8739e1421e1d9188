"""Imports torch once, and forks a process for each job on trial: a test need not wait for the import.

It reads one JSON object a line: the script, its working folder, the settings, files for its output, and answers with
its exit code.
"""

import json
import os
import runpy
import sys
import traceback

import torch._dynamo  # noqa: F401 (torch imports it when an optimizer first steps)

from redline.capture.settings import Settings
from redline.capture.worker.start_watching import _arrive, _guard
from redline.capture.worker.watch import watch


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            _run(order)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


def _run(order: dict[str, str]) -> None:
    """As Python runs a script, with its ways to end."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.chdir(order["folder"])
    sys.argv = [order["script"]]
    settings = Settings.from_text(order["settings"])
    context = _arrive(settings)
    if settings.guarded:
        _guard(settings, context)
    watch(context)
    code = 0
    try:
        runpy.run_path(order["script"], run_name="__main__")
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:  # noqa: BLE001 (as Python does)
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


main()
