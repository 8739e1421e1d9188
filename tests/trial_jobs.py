"""Runs a script as a job on trial, without the part of Redline that watches it, and reads what its levers told."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

from redline.launch.block_plan import BlockPlan
from redline.launch.settings import Settings, environment_for
from redline.launch.shared_state import STEPS, SharedState
from tests.conftest import ROOT
from tests.running import TORCHRUN

_SECONDS = 300
_QUIET = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}
PLAN = BlockPlan(seed=1, warm_up=2, dropped=0, kept=2, pairs=2)


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


def run_trial(
    folder: Path,
    script: str,
    *levers: str,
    plan: BlockPlan | None = None,
    last_step: int = 0,
    ranks: int = 1,
    environment: Mapping[str, str] | None = None,
    settings: Mapping[str, object] | None = None,
    working_folder: Path | None = None,
) -> TrialEnd:
    """The script of this text, to its end or to its last step."""
    path = folder / "job.py"
    path.write_text(dedent(script))
    shared = SharedState.make(ranks)
    told: dict[str, object] = {
        "board": shared.path,
        "slots": ranks,
        "local_size": ranks,
        "elastic": ranks > 1,
        "capture": False,
        "timed_after_s": 0.0,
        "levers": levers,
        "blocks": plan.to_settings() if plan else {},
        "last_step": last_step or (plan.last if plan else 0),
        **(settings or {}),
    }
    known = {**os.environ, **_QUIET, "PYTHONPATH": str(ROOT / "src"), **(environment or {})}
    command = [*TORCHRUN, f"--nproc-per-node={ranks}", str(path)] if ranks > 1 else [sys.executable, str(path)]
    ended = subprocess.run(
        command,
        cwd=working_folder or folder,
        env=environment_for(known, Settings(told)),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    slots = [shared.slot(number) for number in range(ranks)]
    facts = [json.loads(slot.read_facts() or b"{}") for slot in slots]
    return TrialEnd(ended.returncode, ended.stdout, ended.stderr, facts, [slot.words[STEPS] for slot in slots])
