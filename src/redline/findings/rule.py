"""Declare a rule: how one cause of lost time is recognised, what is said of it, and what is known of its fix.

    @rule("RL-H42", ClaimOrder.MOMENTS, Numerics.BITWISE, Grade.DOCUMENTED, least_share=0.03)
    @says("Python reads {reads:,} numbers per step; the device loses {lost_ns}.", lost_ns=alone)
    def number_reads(analysis: RankAnalysis) -> RuleMatch | None:
        rows = ...
        return RuleMatch(analysis.idle_after(...), reads=len(rows)) if len(rows) else None

Sentences are said from top to bottom. The prose of a rule is its page.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum, auto
from string import Formatter
from typing import Any, SupportsFloat, TypeVar

from redline.findings.evidence import Bearing, Evidence, Grade
from redline.findings.finding import Finding
from redline.findings.what_if import WhatIf, claimed_time_gone
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.activity import Mask
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.rank_analysis import RankAnalysis
from redline.numerics import Numerics
from redline.replay.changes import Change
from redline.timeline.intervals import Intervals
from redline.values import dataclass


class ClaimOrder(IntEnum):
    """The order in which rules claim time: each gets what the rules before it have left.

    Time in which the job had no core is nobody else's. Then what happens at single moments claims, then launching as a
    whole, then what single kernels could save, then communication. So a cause that another one's fix would remove as
    well gets only what that one leaves. Rules of the same place claim in the order of their codes.
    """

    # no time of the job at all: its thread had no core
    STARVED = auto()
    THREADS = auto()  # of the process hold it up

    # single moments
    ENGINE_GAPS = auto()  # between the steps of a serving engine
    MOMENTS = auto()  # loading, waiting for the device, pauses
    HOST_WORK = auto()  # pauses that no rule before has named

    # launching as a whole
    ENGINE_LAUNCHES = auto()
    LAUNCHES = auto()

    # kernels and copies
    DDP_COPIES = auto()
    AVOIDABLE_KERNELS = auto()  # that another setting does not need
    MEMORY_TRAFFIC = auto()  # of attention scores, of weights while decoding
    MATRIX_PRODUCTS = auto()
    ELEMENTWISE = auto()

    # communication: waiting for other ranks, then transfer
    PIPELINE_WAITS = auto()
    AVOIDABLE_EXCHANGES = auto()  # that can be left out, with the waiting in them
    LATE_RANKS = auto()
    LATE_GRADIENTS = auto()  # exchanged when nothing is left to compute
    AVOIDABLE_TRANSFER = auto()  # that can be left out, or is far slower than its link
    GRADIENT_TRANSFER = auto()
    REPEATED_GATHERS = auto()
    TRANSFER = auto()

    NOTHING = auto()  # a remark about the trace or its phases, with nothing to gain


Fact = SupportsFloat | str


class _Facts:
    """Figures, which are added up over ranks, and names, of which the commonest is said."""

    def __init__(self, facts: dict[str, Fact]) -> None:
        self.figures = {name: float(fact) for name, fact in facts.items() if not isinstance(fact, str)}
        self.names = {name: fact for name, fact in facts.items() if isinstance(fact, str)}


class RuleMatch(_Facts):
    """Where a rule matches on one rank. A fix that makes a kernel shorter claims the end of that kernel's time."""

    def __init__(self, claim: Intervals, /, **facts: Fact) -> None:
        super().__init__(facts)
        self.claim = claim


class JobMatch(_Facts):
    """Where a rule matches when all ranks are together: for each of them the exposed communication that it claims.

    A rule that claims no time needs no claims.
    """

    def __init__(self, claims: Sequence[Intervals] = (), beside: Sequence[Intervals] = (), /, **facts: Fact) -> None:
        """Beside the claims: time of each rank that goes too where this is the only fix, whoever claims it."""
        super().__init__(facts)
        self.claims, self.beside = claims, beside


@dataclass(frozen=True, kw_only=True)
class MatchTotals:
    """A rule's matches on all ranks, added up; times are of the average step of a rank, whose job may gain more."""

    ranks: int  # that it matches on
    steps: int  # of all ranks together, whether it matches there or not
    step_ns: float
    bound_ns: float
    alone_ns: float
    figures: Mapping[str, float]
    names: Mapping[str, str]

    @property
    def share(self) -> float:
        """The share of the step that the fix could be worth if it were the only one."""
        return self.alone_ns / self.step_ns if self.step_ns else 0.0

    def per_step(self, figure: str) -> float:
        return self.figures.get(figure, 0.0) / max(self.steps, 1)


Sentences = Callable[[MatchTotals], Iterable[Evidence]]
Condition = Callable[[MatchTotals], bool]
Matcher = TypeVar("Matcher", bound=Callable[..., RuleMatch | JobMatch | None])


@dataclass(frozen=True)
class Rule:
    """One cause. Used as a decorator, it takes the function that finds the cause: on a rank (its argument is a
    RankAnalysis), with all ranks together (a Diagnosis), or from what the rules before it found (several of Finding).

    If none of its sentences is said, the rule is silent. Below `least_share` of the step it is not asked.
    """

    code: str
    claims: ClaimOrder
    numerics: Numerics
    grade: Grade
    least_share: float = 0.01
    figures: tuple[str, ...] = ()  # that `adds` and `fix` need of every rank where `match` found something
    names: tuple[str, ...] = ()
    fix: Callable[[MatchTotals], Evidence | None] | None = None  # the smallest fix, filled with what was seen
    ends: Callable[[Digest], Mask] | None = None  # exchanges whose exposed time goes too where this is the only fix of
    # a rank, whoever claims them
    what_if: WhatIf = claimed_time_gone  # what its fix changes on a rank, to replay the step with the cause gone
    what_if_job: Callable[[Diagnosis], tuple[Change, ...]] | None = None  # instead, where it takes all ranks to say
    no_replay: str = ""  # why no replay can tell what the fix gains
    is_indirect: bool = False  # it costs time only with another cause, which is named first where both gain the same
    is_launch_bound: bool = False  # the host launches too slowly: until that is fixed, shorter kernels gain little
    applies_to_plans: bool = False
    """It also holds for timelines that a plan predicted. A plan draws the host as a gap, and links as fast as
    they are assumed to be: a rule about what a program was seen to do would only find the drawing."""
    match: Callable[[RankAnalysis], RuleMatch | None] | None = None
    match_job: Callable[[Diagnosis], JobMatch | None] | None = None
    match_findings: Callable[[Sequence[Finding]], JobMatch | None] | None = None
    sentences: tuple[Sentences, ...] = ()

    def __call__(self, function: Callable[..., RuleMatch | JobMatch | None]) -> "Rule":
        seen = next(iter(function.__annotations__.values()))
        found: dict[str, Any] = {{RankAnalysis: "match", Diagnosis: "match_job"}.get(seen, "match_findings"): function}
        said: list[_Said] = vars(function).get("said", [])
        return replace(
            self,
            figures=tuple(dict.fromkeys([*self.figures, *(name for _, figures, _ in said for name in figures)])),
            names=tuple(dict.fromkeys([*self.names, *(name for _, _, names in said for name in names)])),
            sentences=tuple(sentences for sentences, _, _ in said),
            **found,
        )

    @property
    def claims_time(self) -> bool:
        return self.claims is not ClaimOrder.NOTHING

    def explain(self, totals: MatchTotals) -> Iterator[Evidence]:
        for sentences in self.sentences:
            yield from sentences(totals)


rule = Rule  # the decorator


_Said = tuple[Sentences, tuple[str, ...], tuple[str, ...]]  # with the figures and the names that they need


def adds(
    sentences: Sentences, figures: tuple[str, ...] = (), names: tuple[str, ...] = ()
) -> Callable[[Matcher], Matcher]:
    """Under `@rule`: what a template does not say, by a function that yields it."""

    def declared(function: Matcher) -> Matcher:
        said: list[_Said] = vars(function).setdefault("said", [])
        said.insert(0, (sentences, figures, names))  # decorators are applied from the last to the first
        return function

    return declared


@dataclass(frozen=True)
class Value:
    """A value in a sentence about all ranks, and the figures that it is made from."""

    of: Callable[[MatchTotals], float | str]
    figures: tuple[str, ...] = ()


alone = Value(lambda totals: totals.alone_ns)
"""The gain of the fix in a step where it is the only one."""


def value(of: Callable[[MatchTotals], float], *figures: str) -> Value:
    return Value(of, figures)


def per_step(figure: str) -> Value:
    return value(lambda totals: totals.per_step(figure), figure)


def total(figure: str) -> Value:
    """The figure of all ranks and steps together."""
    return value(lambda totals: totals.figures[figure], figure)


def whole(figure: str) -> Value:
    return value(lambda totals: round(totals.figures[figure]), figure)


def ratio(part: str, of: str) -> Value:
    return value(lambda totals: totals.figures[part] / max(totals.figures[of], 1), part, of)


def mean(part: str, of: str) -> Value:
    return value(lambda totals: round(totals.figures[part] / max(totals.figures[of], 1)), part, of)


def says(
    message: str,
    /,
    *,
    when: str | Condition = "",  # a figure that is not 0, or a name that is known
    unless: str | Condition = "",
    bearing: Bearing = Bearing.SUPPORTS,
    order: str = "",  # of its values, where that is not the order of the sentence
    **values: Value,
) -> Callable[[Matcher], Matcher]:
    """Under `@rule`: one sentence. `{reads:,}` and `{reading_ns}` are figures of an average step, `{operator}` a name.

    `values` say what else a field is. `scripts/update_catalogue.py` finds the message as the first argument.
    """
    fields = {name: spec for _, name, spec, _ in Formatter().parse(message) if name}
    usual = {name: _usual(name, spec or "") for name, spec in fields.items() if name not in values}
    names = tuple(name for name in usual if not _is_figure(name, fields[name]))
    asked = tuple(name for name in (when, unless) if isinstance(name, str) and name and name not in names)
    filled = {name: values.get(name) or usual[name] for name in order.split() or fields}

    def sentences(totals: MatchTotals) -> Iterator[Evidence]:
        if (not when or _holds(totals, when)) and not (unless and _holds(totals, unless)):
            yield Evidence(message, {name: one.of(totals) for name, one in filled.items()}, bearing)

    figures = tuple(figure for one in filled.values() for figure in one.figures)
    return adds(sentences, (*figures, *asked), names)


def _usual(name: str, spec: str) -> Value:
    if name == "step_ns":
        return Value(lambda totals: totals.step_ns)
    if name == "steps":
        return Value(lambda totals: totals.steps)
    if not _is_figure(name, spec):
        return Value(lambda totals: totals.names[name])
    return value(lambda totals: round(totals.per_step(name)) if spec else totals.per_step(name), name)


def _is_figure(name: str, spec: str | None) -> bool:
    return bool(spec) or name.endswith(("_ns", "_bytes"))


def _holds(totals: MatchTotals, condition: str | Condition) -> bool:
    if isinstance(condition, str):
        return bool(totals.figures.get(condition) or totals.names.get(condition))
    return condition(totals)
