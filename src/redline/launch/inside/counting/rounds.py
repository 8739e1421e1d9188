"""Which step of an optimizer ends a step of the training, where there are several at once or one after another."""

from __future__ import annotations

from typing import NamedTuple

_FRESH_IN_A_ROW = 8  # optimizers that step once and never again, before each is taken for a step
_REGROUP_UNTIL = 64  # steps of a team, up to which an optimizer that appears late may still make them longer
_REGROUPS = 4  # after which it is clear that those who appear late never come back
_PATIENCE = 4  # rounds without the optimizer that closes them, before another one does
_MOST_GUESTS = 20_000  # more than a model has parameters, of which each may have an optimizer
_REMEMBERED = 1000  # a job may make new optimizers for ever


class Seen(NamedTuple):
    """A step of an optimizer: which one, its number among all such steps, and when."""

    optimizer: int
    number: int
    ns: int


class Team:
    """Optimizers that step in turn. The last one in the first round is the one that closes a round."""

    def __init__(self, first_round: list[Seen]) -> None:
        self.members = {one.optimizer: one.number for one in first_round}  # each with the number of its last step
        self.size = len(first_round)  # of the last round, with the steps of others than the members
        self.may_grow = _REGROUPS
        self._closing, self._closed_at = first_round[-1][:2] if first_round else (0, 0)
        self._times: dict[int, int] = {}  # that each has stepped in this round
        self._most = 1  # times that one has stepped in a round

    def stepped(self, one: Seen) -> bool:
        """Whether that ends a round."""
        optimizer = one.optimizer
        self.members[optimizer] = one.number
        times = self._times[optimizer] = self._times.get(optimizer, 0) + 1
        if optimizer != self._closing and times <= _PATIENCE * self._most + 1:
            return False
        self._most = max(self._most, min(max(self._times.values()), _REMEMBERED))
        self.size = min(one.number - self._closed_at, _REMEMBERED)
        self._closing, self._closed_at = one[:2]
        self._times.clear()
        return True

    def admit(self, guests: list[Seen]) -> None:
        if len(self.members) < _REMEMBERED:
            self.members.update((one.optimizer, one.number) for one in guests)

    def be_closed_by(self, guest: Seen, steps: int) -> None:
        """It steps in each round as well, and ends it: each of the `steps` until now was a part of one."""
        self.may_grow -= 1
        self._most = max(self._most, steps, *self._times.values())
        self._closing, self._closed_at = guest[:2]
        self._times.clear()

    def skip(self) -> None:
        """Nobody steps any more in this round."""
        self._times.clear()


class Rounds:
    """Tells which step of an optimizer ends a step of the training.

    With one optimizer, each. Several that step in turn (adversarial training, one per parameter in the backward pass)
    are a team, and a step is one of its rounds. Those that are new, or come back, are guests at first. If the team
    steps next, they belong to it. If guests step again before the team does, they have taken over: the next fold, the
    model after its layers were unfrozen.
    """

    def __init__(self) -> None:
        self.regrouped = False  # by the last step: all that was counted before were parts of one step
        self._team = Team([])
        self._guests: list[Seen] = []  # their steps since the team has stepped
        self._invited: set[int] = set()  # the guests
        self._are_steps = False  # each guest has stepped once, and each time was counted as a step
        self._fresh = 0
        self._former: dict[int, int] = {}  # those who were replaced, each with the number of its last step
        self._number = 0
        self._since = 0  # steps before this team took over

    def stepped(self, optimizer: int, now_ns: int, steps: int, *, in_backward: bool = False) -> tuple[int, ...]:
        """When those of the steps of the training ended that are known now to be over: just now, or before."""
        self.regrouped = False
        self._number += 1
        return self._count(Seen(optimizer, self._number, now_ns), steps, in_backward=in_backward)

    def round_is_over(self, steps: int) -> tuple[int, ...]:
        """Nobody steps any more in this round. When those before ended that are not counted yet."""
        ended: tuple[int, ...] = ()
        while self._guests and not self._are_steps:
            ended += self._take_over(steps + len(ended))
        self._team.skip()
        return ended

    def _count(self, one: Seen, steps: int, *, in_backward: bool) -> tuple[int, ...]:
        if one.optimizer in self._team.members:
            self._fresh = 0
            ended = self._join(steps) if self._guests else ()
            return (*ended, one.ns) if self._team.stepped(one) else ended
        restored = self._restore(one, steps)
        return restored + self._welcome(one, steps, in_backward=in_backward)

    def _welcome(self, one: Seen, steps: int, *, in_backward: bool) -> tuple[int, ...]:
        """A guest steps."""
        is_again = one.optimizer in self._invited
        self._fresh = 0 if is_again or one.optimizer in self._former else self._fresh + 1
        if len(self._guests) > _MOST_GUESTS:
            self._dismiss()
        self._guests.append(one)
        self._invited.add(one.optimizer)
        some_again = len(self._guests) > len(self._invited)
        if some_again and len(self._guests) > self._team.size:  # by now the team would have stepped
            return self._gather(one, steps) if self._are_steps else self._take_over(steps, in_backward=in_backward)
        if self._fresh > _FRESH_IN_A_ROW and not in_backward:
            return self._count_each()
        return ()

    def _count_each(self) -> tuple[int, ...]:
        """Each step makes an optimizer of its own."""
        ended = [one.ns for one in (self._guests[-1:] if self._are_steps else self._guests)]
        if len(self._guests) > _REMEMBERED:
            self._dismiss()
        self._are_steps = True
        return tuple(ended)

    def _gather(self, one: Seen, steps: int) -> tuple[int, ...]:
        """Guests that were counted each for itself begin another round."""
        is_early = not self._team.members and steps < _REGROUP_UNTIL
        ended = self._take_over(steps)
        self.regrouped = is_early and len(self._team.members) > 1
        return ended if self.regrouped else tuple(ns for ns in ended if ns == one.ns)

    def _take_over(self, steps: int, *, in_backward: bool = False) -> tuple[int, ...]:
        """The guests are the team from now on. When the rounds ended that they have made."""
        guests = self._dismiss()
        if self._team.members:
            self._since = steps
            self._replace(self._team.members)
        end = _first_again(guests)
        begin = 0
        ended: tuple[int, ...] = (guests[end - 1].ns,)
        if 1 < end < len(guests) and guests[end].optimizer == guests[end - 1].optimizer and not in_backward:
            begin = end - 1  # alone: those before it were no part of its round
            ended = (guests[begin - 1].ns, *ended)
            self._replace({one.optimizer: one.number for one in guests[:begin]})
        self._team = Team(guests[begin:end])
        for one in guests[end:]:
            ended += self._count(one, steps + len(ended), in_backward=in_backward)
        return ended

    def _restore(self, one: Seen, steps: int) -> tuple[int, ...]:
        """One that was replaced came back for a single step, and now others step: those are parts of its rounds."""
        if len(self._guests) != 1 or self._are_steps:
            return ()
        guest = self._guests[0]
        if guest.optimizer not in self._former or guest.optimizer == one.optimizer:
            return ()
        size = guest.number - self._former[guest.optimizer]
        ended = self._take_over(steps)
        self._team.size, self._team.may_grow = size, 0
        return ended

    def _join(self, steps: int) -> tuple[int, ...]:
        """The team steps after its guests: they belong to it."""
        were_steps = self._are_steps
        guests, team, steps_of_team = self._dismiss(), self._team, steps - self._since
        if were_steps:
            return ()
        team.admit(guests)
        if not team.may_grow or steps_of_team >= _REGROUP_UNTIL:
            return ()
        team.be_closed_by(guests[-1], steps_of_team)
        if self._since:  # what those before have made stays
            return ()
        self.regrouped = True
        return (guests[-1].ns,)

    def _replace(self, members: dict[int, int]) -> None:
        self._former.update(members)
        if len(self._former) > _REMEMBERED:
            self._former = dict(list(self._former.items())[-_REMEMBERED // 2 :])

    def _dismiss(self) -> list[Seen]:
        """The guests, which are none any more."""
        guests, self._guests = self._guests, []
        self._invited.clear()
        self._are_steps = False
        return guests


def _first_again(steps: list[Seen]) -> int:
    """Where an optimizer steps for the second time; the end, if none does."""
    known: set[int] = set()
    for at, one in enumerate(steps):
        if one.optimizer in known:
            return at
        known.add(one.optimizer)
    return len(steps)
