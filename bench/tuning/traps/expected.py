"""The traps of `job.py`, and what a search must say of each. None of them may be adopted."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

JOB = Path(__file__).with_name("job.py")
LEAST_GAIN = 0.05  # that a wrong change must have on time, so that it tempts


class TrapOutcome(StrEnum):
    """Why a change is rejected."""

    WRONG_NUMBERS = "wrong numbers"
    NOTHING_CHANGED = "no measurable change"
    SLOWER = "slower"
    FAILED = "failed"
    HUNG = "hung"
    LEFT_PROCESSES = "left processes behind"


@dataclass(frozen=True, kw_only=True)
class Trap:
    """A change to `job.py`, named by the lever that makes it."""

    name: str
    lever: str
    expected: TrapOutcome
    what: str
    arguments: tuple[str, ...] = ()
    says: str = ""  # part of the reason, where the program itself gives one


def _switch(name: str, expected: TrapOutcome, what: str, says: str = "") -> Trap:
    return Trap(name=name, lever=f"switch={name}", expected=expected, what=what, says=says)


TRAPS = (
    _switch("loss_scaled", TrapOutcome.WRONG_NUMBERS, "the loss is not divided by the variety of its batch"),
    _switch("mask_dropped", TrapOutcome.WRONG_NUMBERS, "attention sees later tokens"),
    _switch(
        "stale_gradient", TrapOutcome.WRONG_NUMBERS, "the MLP of the first block gets no gradient, and is not trained"
    ),
    _switch(
        "low_precision",
        TrapOutcome.WRONG_NUMBERS,
        "norms, softmax and GELU in bfloat16, where reassociation is claimed",
    ),
    _switch("dropout_off", TrapOutcome.WRONG_NUMBERS, "no dropout"),
    _switch("norm_skipped", TrapOutcome.WRONG_NUMBERS, "the norm in front of each MLP is left out"),
    _switch("accumulates_wrongly", TrapOutcome.WRONG_NUMBERS, "one of two micro-batches is left out"),
    _switch("batch_repeated", TrapOutcome.WRONG_NUMBERS, "three of four batches are the one before"),
    Trap(
        name="workers_repeat_data",
        lever="workers=2",
        arguments=("--streamed",),
        expected=TrapOutcome.WRONG_NUMBERS,
        what="each worker reads the same stream from its beginning",
    ),
    _switch("does_nothing", TrapOutcome.NOTHING_CHANGED, "asked for, and without effect"),
    _switch("slower", TrapOutcome.SLOWER, "more work"),
    _switch("out_of_memory", TrapOutcome.FAILED, "an allocation that fails", "can't allocate memory"),
    _switch("crashes", TrapOutcome.FAILED, "the process aborts"),
    _switch("raises", TrapOutcome.FAILED, "an exception", "planted: this change does not work here"),
    _switch("hangs", TrapOutcome.HUNG, "a step that never ends"),
    _switch("leaks_processes", TrapOutcome.LEFT_PROCESSES, "a process that outlives the job, in a session of its own"),
)
