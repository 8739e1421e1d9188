"""Whether the cause of a case was named, whether its twin is quiet, and whether the bound is at least the gain."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.serving.run_case import SideResult
from bench.serving.serving_cases import ServingCase


@dataclass(frozen=True, kw_only=True)
class ServingScore:
    """What was said of both sides of a case."""

    name: str
    cause: str
    said: tuple[tuple[str, float], ...]
    place: int  # of the first cause that names it; 0 where none does
    most: float | None  # of a latency of the slowest requests, that mending that cause takes off, as it claims
    gain: float | None  # of the twin, in that latency
    alarms: tuple[tuple[str, float], ...]  # all causes of the twin: none is too small to be one
    trouble: str

    def line(self) -> str:
        """For people."""
        if self.trouble:
            return f"{self.name:26} DID NOT RUN: {self.trouble}"
        gain = "" if self.gain is None else f"  at most {self.most or 0:.0%} gain {self.gain:.0%}"
        said, alarms = _listed(self.said) or "nothing", _listed(self.alarms) or "none"
        return f"{self.name:26} {self.cause:18} place {self.place}  said {said}{gain}  alarms {alarms}"


def _listed(causes: Sequence[tuple[str, float]]) -> str:
    return " ".join(f"{code}:{share:.0%}" for code, share in causes)


def score_of(case: ServingCase, flawed: SideResult, healthy: SideResult) -> ServingScore:
    said = [code for code, _ in flawed.causes]
    named = next((code for code in said if code in case.codes), "")
    latency = flawed.latencies.get(named, "")
    before, after = flawed.slowest_ms.get(latency), healthy.slowest_ms.get(latency)
    return ServingScore(
        name=case.name,
        cause=case.cause,
        said=flawed.causes,
        place=said.index(named) + 1 if named else 0,
        most=flawed.most.get(named),
        gain=1 - after / before if before and after else None,
        alarms=healthy.causes,
        trouble=flawed.trouble or healthy.trouble,
    )


def summary(scores: Sequence[ServingScore]) -> str:
    ran = [score for score in scores if not score.trouble]
    first, alarms = sum(score.place == 1 for score in ran), sum(bool(score.alarms) for score in ran)
    known = [(score.most, score.gain) for score in ran if score.most is not None and score.gain is not None]
    hold = sum(most >= gain for most, gain in known)
    return (
        f"{len(ran)} of {len(scores)} ran; the cause came first in {first}, {alarms} healthy twins have an alarm, "
        f"the bound is at least the gain in {hold} of {len(known)}"
    )
