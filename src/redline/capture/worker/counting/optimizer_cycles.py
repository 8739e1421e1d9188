"""Which step of an optimizer ends a step of the training, where there are several at once or one after another."""

from __future__ import annotations

from typing import NamedTuple

_FRESH_IN_A_ROW = 8  # optimizers that step once and never again, before each is taken for a step
_REGROUP_UNTIL = 64  # steps by a cycle, up to which an optimizer that appears late may still make them longer
_REGROUPS = 4  # after which it is clear that those who appear late never come back
_PATIENCE = 4  # cycles without the optimizer that closes them, before another one does
_MOST_NEWCOMERS = 20_000  # more than a model has parameters, of which each may have an optimizer
_REMEMBERED = 1000  # a job may make new optimizers for ever


class OptimizerStep(NamedTuple):
    """A step of an optimizer: which one, its number among all such steps, and when."""

    optimizer: int
    number: int
    ns: int


class Cycle:
    """Optimizers that step in turn. The last one of the first cycle is the one that ends each."""

    def __init__(self, first_cycle: list[OptimizerStep]) -> None:
        self.members = {
            optimizer_step.optimizer: optimizer_step.number for optimizer_step in first_cycle
        }  # each with the number of its last step
        self.size = len(first_cycle)  # of the last cycle, with the steps of others than the members
        self.may_grow = _REGROUPS
        self._closing, self._closed_at = first_cycle[-1][:2] if first_cycle else (0, 0)
        self._times: dict[int, int] = {}  # that each has stepped in this cycle
        self._most = 1  # times that one has stepped in a cycle

    def stepped(self, optimizer_step: OptimizerStep) -> bool:
        """Count a step of a member; true if it ends a cycle."""
        optimizer = optimizer_step.optimizer
        self.members[optimizer] = optimizer_step.number
        times = self._times[optimizer] = self._times.get(optimizer, 0) + 1
        if optimizer != self._closing and times <= _PATIENCE * self._most + 1:
            return False
        self._most = max(self._most, min(max(self._times.values()), _REMEMBERED))
        self.size = min(optimizer_step.number - self._closed_at, _REMEMBERED)
        self._closing, self._closed_at = optimizer_step[:2]
        self._times.clear()
        return True

    def admit(self, newcomers: list[OptimizerStep]) -> None:
        if len(self.members) < _REMEMBERED:
            self.members.update((optimizer_step.optimizer, optimizer_step.number) for optimizer_step in newcomers)

    def be_closed_by(self, newcomer: OptimizerStep, steps: int) -> None:
        """It steps in each cycle as well, and ends it: each of the `steps` until now was a part of one."""
        self.may_grow -= 1
        self._most = max(self._most, steps, *self._times.values())
        self._closing, self._closed_at = newcomer[:2]
        self._times.clear()

    def skip(self) -> None:
        """Nobody steps any more in this cycle."""
        self._times.clear()


class OptimizerCycles:
    """Tells which step of an optimizer ends a step of the training.

    With one optimizer, each. Several that step in turn (adversarial training, one per parameter in the backward pass)
    form a cycle, and a step is one pass through it. Those that are new, or come back, are newcomers at first. If a
    member of the cycle steps next, they belong to it. If newcomers step again before a member does, they have taken
    over: the next fold, the model after its layers were unfrozen.

    Two optimizers, 1 and 2, as in adversarial training. What each call of `stepped` gives, with times t1, t2, ...:

        optimizer   1    2    1      2      1    2
        at          t1   t2   t3     t4     t5   t6
        gives       ()   ()   (t2,)  (t4,)  ()   (t6,)

    At t3, optimizer 1 steps again: the first cycle was 1 and 2, and ended at t2. From then on, 2 closes each at once.
    With one optimizer and a late second one, 1 1 2 1 2: it gives (), (t1, t2), (), and at t4, when the member 1 follows
    the newcomer 2, (t3,) with `regrouped`: 1 1 2 was one step, and what was counted before is forgotten.
    """

    def __init__(self) -> None:
        self.regrouped = False  # by the last step: all that was counted before were parts of one step
        self._cycle = Cycle([])
        self._newcomers: list[OptimizerStep] = []  # their steps since a member has stepped
        self._newcomer_ids: set[int] = set()  # their optimizers
        self._are_steps = False  # each newcomer has stepped once, and each time was counted as a step
        self._fresh = 0
        self._former: dict[int, int] = {}  # those who were replaced, each with the number of its last step
        self._number = 0
        self._since = 0  # steps before this cycle began

    def stepped(self, optimizer: int, now_ns: int, steps: int, *, in_backward: bool = False) -> tuple[int, ...]:
        """When those of the steps of the training ended that are known now to be over: just now, or before."""
        self.regrouped = False
        self._number += 1
        return self._count(OptimizerStep(optimizer, self._number, now_ns), steps, in_backward=in_backward)

    def cycle_is_over(self, steps: int) -> tuple[int, ...]:
        """Nobody steps any more in this cycle. When those before ended that are not counted yet."""
        ended: tuple[int, ...] = ()
        while self._newcomers and not self._are_steps:
            ended += self._take_over(steps + len(ended))
        self._cycle.skip()
        return ended

    def _count(self, optimizer_step: OptimizerStep, steps: int, *, in_backward: bool) -> tuple[int, ...]:
        if optimizer_step.optimizer in self._cycle.members:
            self._fresh = 0
            ended = self._join(steps) if self._newcomers else ()
            return (*ended, optimizer_step.ns) if self._cycle.stepped(optimizer_step) else ended
        restored = self._restore(optimizer_step, steps)
        return restored + self._count_newcomer(optimizer_step, steps, in_backward=in_backward)

    def _count_newcomer(self, optimizer_step: OptimizerStep, steps: int, *, in_backward: bool) -> tuple[int, ...]:
        """A step of an optimizer that is no member yet."""
        is_again = optimizer_step.optimizer in self._newcomer_ids
        self._fresh = 0 if is_again or optimizer_step.optimizer in self._former else self._fresh + 1
        if len(self._newcomers) > _MOST_NEWCOMERS:
            self._dismiss()
        self._newcomers.append(optimizer_step)
        self._newcomer_ids.add(optimizer_step.optimizer)
        some_again = len(self._newcomers) > len(self._newcomer_ids)
        if some_again and len(self._newcomers) > self._cycle.size:  # by now a member would have stepped
            return (
                self._gather(optimizer_step, steps)
                if self._are_steps
                else self._take_over(steps, in_backward=in_backward)
            )
        if self._fresh > _FRESH_IN_A_ROW and not in_backward:
            return self._count_each()
        return ()

    def _count_each(self) -> tuple[int, ...]:
        """Each step makes an optimizer of its own."""
        ended = [one.ns for one in (self._newcomers[-1:] if self._are_steps else self._newcomers)]
        if len(self._newcomers) > _REMEMBERED:
            self._dismiss()
        self._are_steps = True
        return tuple(ended)

    def _gather(self, optimizer_step: OptimizerStep, steps: int) -> tuple[int, ...]:
        """Guests that were counted each for itself begin another cycle."""
        is_early = not self._cycle.members and steps < _REGROUP_UNTIL
        ended = self._take_over(steps)
        self.regrouped = is_early and len(self._cycle.members) > 1
        return ended if self.regrouped else tuple(ns for ns in ended if ns == optimizer_step.ns)

    def _take_over(self, steps: int, *, in_backward: bool = False) -> tuple[int, ...]:
        """The newcomers are the members from now on. When the cycles ended that they have made."""
        newcomers = self._dismiss()
        if self._cycle.members:
            self._since = steps
            self._replace(self._cycle.members)
        end = _first_again(newcomers)
        begin = 0
        ended: tuple[int, ...] = (newcomers[end - 1].ns,)
        if 1 < end < len(newcomers) and newcomers[end].optimizer == newcomers[end - 1].optimizer and not in_backward:
            begin = end - 1  # alone: those before it were no part of its cycle
            ended = (newcomers[begin - 1].ns, *ended)
            self._replace({optimizer_step.optimizer: optimizer_step.number for optimizer_step in newcomers[:begin]})
        self._cycle = Cycle(newcomers[begin:end])
        for optimizer_step in newcomers[end:]:
            ended += self._count(optimizer_step, steps + len(ended), in_backward=in_backward)
        return ended

    def _restore(self, optimizer_step: OptimizerStep, steps: int) -> tuple[int, ...]:
        """One that was replaced came back for a single step, and now others step: those are parts of its cycles."""
        if len(self._newcomers) != 1 or self._are_steps:
            return ()
        newcomer = self._newcomers[0]
        if newcomer.optimizer not in self._former or newcomer.optimizer == optimizer_step.optimizer:
            return ()
        size = newcomer.number - self._former[newcomer.optimizer]
        ended = self._take_over(steps)
        self._cycle.size, self._cycle.may_grow = size, 0
        return ended

    def _join(self, steps: int) -> tuple[int, ...]:
        """A member steps after newcomers: they belong to the cycle."""
        were_steps = self._are_steps
        newcomers, cycle, steps_of_cycle = self._dismiss(), self._cycle, steps - self._since
        if were_steps:
            return ()
        cycle.admit(newcomers)
        if not cycle.may_grow or steps_of_cycle >= _REGROUP_UNTIL:
            return ()
        cycle.be_closed_by(newcomers[-1], steps_of_cycle)
        if self._since:  # what those before have made stays
            return ()
        self.regrouped = True
        return (newcomers[-1].ns,)

    def _replace(self, members: dict[int, int]) -> None:
        self._former.update(members)
        if len(self._former) > _REMEMBERED:
            self._former = dict(list(self._former.items())[-_REMEMBERED // 2 :])

    def _dismiss(self) -> list[OptimizerStep]:
        """The newcomers, which are none any more."""
        newcomers, self._newcomers = self._newcomers, []
        self._newcomer_ids.clear()
        self._are_steps = False
        return newcomers


def _first_again(steps: list[OptimizerStep]) -> int:
    """Where an optimizer steps for the second time; the end, if none does."""
    known: set[int] = set()
    for at, optimizer_step in enumerate(steps):
        if optimizer_step.optimizer in known:
            return at
        known.add(optimizer_step.optimizer)
    return len(steps)
