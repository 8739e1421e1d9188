"""Which levers are worth a trial on a job: those that its findings suggest first, then what is cheap to try."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from redline.capture.lever_kinds import ACCELERATOR, KINDS, LOADER, RANKS, LeverKind
from redline.capture.levers import Lever, parse_lever
from redline.numerics import Numerics

BY_DEFAULT = (Numerics.BITWISE, Numerics.REASSOCIATION)
_MOST_VALUES = 3
_NEVER_ASKED = ("switch", "env:NAME")  # they have names that only a user knows
_MAY_ALWAYS_GAIN = ("malloc-keep", "compile", "cuda-graphs")  # whatever a job does; the quickest to try first
_USUAL_SHARES = {"malloc-keep": 0.05}  # that jobs on CPUs gain by it: a loader that is waited for less comes later


@dataclass(frozen=True, kw_only=True)
class TunedJob:
    """What is known of a job before anything is tried."""

    shares: Mapping[str, float]  # of the step that each finding can gain at most, by its code
    ranks: int = 1  # on this machine
    has_accelerator: bool = False
    loader_share: float = 0.0  # of the step that the job waits for data
    cores: int = len(os.sched_getaffinity(0))


@dataclass(frozen=True, kw_only=True)
class LeverCandidate:
    """A lever that is to be tried."""

    lever: Lever
    finding: str = ""  # that suggests it; "" where it is tried as it costs little
    share: float = 0.0  # of the step that it can gain at most, as far as a finding says
    is_asked_for: bool = False  # by the user

    @property
    def name(self) -> str:
        return str(self.lever)

    @property
    def is_suggested(self) -> bool:
        return self.is_asked_for or self.share > 0 or self.lever.kind.name in _MAY_ALWAYS_GAIN

    @property
    def is_switchable(self) -> bool:
        return self.lever.kind.switchable


@dataclass(frozen=True, kw_only=True)
class Consent:
    """What a change may do to the numbers without being asked for, and what was asked for by name."""

    lower_precision: bool = False
    semantics: tuple[str, ...] = ()  # levers
    tried: tuple[str, ...] = ()  # levers in addition, whose numbers must hold
    never: tuple[str, ...] = ()  # names of levers to leave out

    def allows(self, lever: Lever) -> bool:
        if str(lever) in (*self.semantics, *self.tried):
            return True
        return lever.kind.numerics in BY_DEFAULT or (
            self.lower_precision and lever.kind.numerics is Numerics.LOWER_PRECISION
        )

    def claim(self, levers: Iterable[Lever]) -> Numerics:
        """What these may do to the numbers together, at least other orders of sums."""
        lowers = any(
            lever.kind.numerics is Numerics.LOWER_PRECISION and str(lever) not in self.tried for lever in levers
        )
        return Numerics.LOWER_PRECISION if lowers else Numerics.REASSOCIATION

    def is_semantic(self, lever: Lever) -> bool:
        """Whether the user has agreed to other numbers."""
        return str(lever) in self.semantics


def candidates_of(facts: TunedJob, consent: Consent, *, for_memory: bool = False) -> list[LeverCandidate]:
    """The most promising first; the same for the same facts. What findings promise is time, so for memory the levers
    that are there for it come before them."""
    named = (*consent.tried, *consent.semantics)
    asked = [LeverCandidate(lever=parse_lever(text), is_asked_for=True) for text in named]
    known = {candidate.name for candidate in asked}
    found = [
        candidate
        for candidate in _all(facts, for_memory)
        if candidate.name not in known and candidate.lever.kind.name not in consent.never
    ]
    found.sort(key=_by_promise)
    if for_memory:
        found.sort(key=lambda candidate: not candidate.lever.kind.saves_memory)
    return [*asked, *found]


def _by_promise(candidate: LeverCandidate) -> tuple[float, int]:
    name = candidate.lever.kind.name
    return -max(candidate.share, _USUAL_SHARES.get(name, 0.0)), _MAY_ALWAYS_GAIN.index(
        name
    ) if name in _MAY_ALWAYS_GAIN else len(_MAY_ALWAYS_GAIN)


def _all(facts: TunedJob, for_memory: bool) -> Iterator[LeverCandidate]:
    for kind in KINDS.values():
        if not _is_of_interest(kind, facts, for_memory):
            continue
        finding = max(
            (code for code in kind.findings if code in facts.shares), key=facts.shares.__getitem__, default=""
        )
        for value in _values(kind, facts):
            share = facts.shares.get(finding, 0.0)
            if kind.needs == LOADER:
                share = max(share, facts.loader_share)
            yield LeverCandidate(lever=Lever(kind, value), finding=finding, share=share)


def _is_of_interest(kind: LeverKind, facts: TunedJob, for_memory: bool) -> bool:
    if kind.name in _NEVER_ASKED or kind.numerics is Numerics.SEMANTICS or not _is_possible(kind, facts):
        return False
    if kind.saves_memory:
        return for_memory
    if kind.needs == LOADER:
        waits = facts.loader_share > 0.0 or any(code in facts.shares for code in kind.findings)
        return waits and not for_memory
    return True


def _is_possible(kind: LeverKind, facts: TunedJob) -> bool:
    """As far as that is known before."""
    if kind.needs == ACCELERATOR:
        return facts.has_accelerator
    return kind.needs != RANKS or facts.ranks > 1


def _values(kind: LeverKind, facts: TunedJob) -> Sequence[str]:
    """That are tried: few, over the range that makes sense on this machine."""
    own_cores = max(facts.cores // facts.ranks, 1)
    ranges = {
        "workers": _doublings(1, own_cores),
        "threads": sorted({1, max(own_cores // 2, 1), own_cores}, reverse=True),
    }
    if kind.name in ranges:
        return [str(value) for value in ranges[kind.name][:_MOST_VALUES]]
    if kind.tried:
        return kind.tried
    if kind.name == "sdpa" and not facts.has_accelerator:
        return ["flash"]
    if kind.values and kind.values.islower():
        return kind.values.split("|")
    return [kind.default] if kind.default or not kind.values else []


def _doublings(least: int, most: int) -> list[int]:
    """The most first, halved down to the least."""
    values = []
    while most >= least:
        values.append(most)
        most //= 2
    return values
