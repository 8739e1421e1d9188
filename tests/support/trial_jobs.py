"""Runs a script as a job on trial, without the part of Redline that watches it, and reads what its levers told."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

from redline.capture.block_plan import WARM_UP, BlockPlan
from redline.capture.settings import Settings, environment_for
from redline.capture.shared_state import BLOCK_STEPS, BLOCK_TURNS, FIRST_BLOCK, LAST_STEP, STEPS, SharedState
from tests.support.command_line import ROOT
from tests.support.running import PROGRAMS, TORCHRUN

_SECONDS = 300
_QUIET = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}
PLAN = BlockPlan(seed=1, first=2 * WARM_UP + 1, kept=2)
LAST = PLAN.last(1)  # of two pairs


@dataclass(frozen=True)
class TrialEnd:
    """A job that is over: how, what it printed, and what each of its processes told."""

    exit_code: int
    output: str
    errors: str
    facts: Sequence[Mapping[str, Any]]
    steps: Sequence[int]

    @property
    def levers(self) -> list[tuple[bool, str]]:
        """What the levers did, in the first process."""
        return [(took, what) for took, what in self.facts[0].get("levers", ())]

    @property
    def notes(self) -> list[str]:
        return [note["text"] for facts in self.facts for note in facts.get("notes", ())]


class _Order:
    """A script with its settings, and the memory in which it tells."""

    def __init__(
        self, folder: Path, script: str, levers: Sequence[str], plan: BlockPlan | None, ranks: int, told: Any
    ) -> None:
        self.script = folder / "job.py"
        self.script.write_text(dedent(script))
        self._shared = SharedState.make(ranks)
        self._ranks = ranks
        words = self._shared.job_words
        words[LAST_STEP] = told.pop("last_step", LAST if plan else 0)
        if plan:
            words[FIRST_BLOCK], words[BLOCK_TURNS], words[BLOCK_STEPS] = plan.first, plan.turns, plan.kept
        self.settings = Settings(
            {
                "board": self._shared.path,
                "slots": ranks,
                "local_size": ranks,
                "elastic": ranks > 1,
                "capture": False,
                "timed_after_s": 0.0,
                "levers": levers,
                "on_trial": True,
                "block_seed": plan.seed if plan else 0,
                **told,
            }
        )

    def end(self, exit_code: int, output: str, errors: str) -> TrialEnd:
        slots = [self._shared.slot(number) for number in range(self._ranks)]
        facts = [json.loads(slot.read_facts() or b"{}") for slot in slots]
        return TrialEnd(exit_code, output, errors, facts, [slot.words[STEPS] for slot in slots])


class TrialRunner:
    """Runs jobs in forks of one process that has imported torch."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server

    def run(
        self,
        folder: Path,
        script: str,
        *levers: str,
        plan: BlockPlan | None = None,
        working_folder: Path | None = None,
        **told: object,
    ) -> TrialEnd:
        order = _Order(folder, script, levers, plan, 1, told)
        files = {name: folder / f"{name}.txt" for name in ("stdout", "stderr")}
        line = {
            "script": str(order.script),
            "folder": str(working_folder or folder),
            "settings": order.settings.to_text(),
            **{name: str(path) for name, path in files.items()},
        }
        assert self._server.stdin
        assert self._server.stdout
        print(json.dumps(line), file=self._server.stdin, flush=True)
        return order.end(int(self._server.stdout.readline()), *(path.read_text() for path in files.values()))


@contextmanager
def trial_runner() -> Iterator[TrialRunner]:
    environment = {**os.environ, **_QUIET, "PYTHONPATH": f"{ROOT}/src:{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-m", "tests.support.trial_server"]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield TrialRunner(server)
        assert server.stdin
        server.stdin.close()


def run_trial(
    folder: Path,
    script: str,
    *levers: str,
    plan: BlockPlan | None = None,
    ranks: int = 1,
    environment: Mapping[str, str] | None = None,
    working_folder: Path | None = None,
    python: str = sys.executable,
    **told: object,
) -> TrialEnd:
    """The script of this text, started as users start it, to its end or to its last step."""
    order = _Order(folder, script, levers, plan, ranks, told)
    known = {**os.environ, **_QUIET, "PYTHONPATH": f"{ROOT}/src:{PROGRAMS}", **(environment or {})}
    alone = [python, str(order.script)]
    ended = subprocess.run(
        [*TORCHRUN, f"--nproc-per-node={ranks}", str(order.script)] if ranks > 1 else alone,
        cwd=working_folder or folder,
        env=environment_for(known, order.settings),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    return order.end(ended.returncode, ended.stdout, ended.stderr)
