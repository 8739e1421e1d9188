"""When the passes of training ran in a trace, and the phase of the step at any time; once for all that asks for it."""

from dataclasses import dataclass

from redline.ledger.rank.backward_passes import Passes, passes_of
from redline.ledger.rank.host_phases import HostPhases, Phase, host_phases_of
from redline.timeline.intervals import Intervals
from redline.timeline.timeline import Timeline


@dataclass(frozen=True, kw_only=True)
class StepPhases:
    """As the host saw them."""

    passes: Passes
    host: HostPhases
    steps: Intervals

    @property
    def forward_share(self) -> float:
        """Of the time of all steps: what it costs to compute all of the forward passes again."""
        forward = self.host.when(Phase.FORWARD) & self.steps
        return forward.length_ns / max(self.steps.length_ns, 1)


def step_phases_of(timeline: Timeline) -> StepPhases:
    spans, steps, passes = timeline.spans, timeline.steps, passes_of(timeline)
    window_ns = (int(spans.start_ns.min()), int(spans.end_ns.max())) if len(spans) else (0, 1)
    return StepPhases(
        passes=passes,
        host=host_phases_of(timeline, passes, window_ns),
        steps=Intervals.union_of(steps.start_ns, steps.end_ns),
    )
