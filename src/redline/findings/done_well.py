"""What a job does well: said, so that nobody spends a week on it."""

from collections.abc import Iterator

from redline.findings.evidence import Evidence
from redline.findings.finding import Verdict
from redline.ledger.accounts import Account
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.first_screen import Outline

_HIDDEN = 0.9  # of the communication
_MUCH = 0.1  # of the window: less communication is no feat to hide
_BUSY = 0.95  # of the time from first to last work
_LOST = 0.1  # of the step: a device that waits, copies or only communicates for longer is not praised
_LOADING = 0.02  # of the step


def praise_of(diagnosis: Diagnosis, outline: Outline, verdict: Verdict) -> Iterator[Evidence]:
    window_ns = sum(rank.ledger.window_ns for rank in diagnosis.ranks)
    communicating_ns = sum(rank.facts.communicating_ns for rank in diagnosis.ranks)
    hidden = 1 - diagnosis.exposed_ns / communicating_ns if communicating_ns else 0.0
    if hidden >= _HIDDEN and communicating_ns >= _MUCH * window_ns:
        values: dict[str, float | str] = {
            "hidden_share": hidden,
            "communicating_ns": communicating_ns / len(diagnosis.ranks),
            "exposed_ns": diagnosis.exposed_ns / len(diagnosis.ranks),
        }
        yield Evidence(
            "Communication overlaps with compute: {hidden_share} of {communicating_ns} is hidden, "
            "{exposed_ns} is exposed.",
            values,
        )
    steps = outline.steps
    step_ns = sum(diagnosis.per_step.values())
    is_busy = steps.busy_ns >= _BUSY * steps.device_window_ns and verdict.lost_share < _LOST
    if steps.device_window_ns and is_busy:
        busy: dict[str, float | str] = {
            "busy_share": steps.busy_ns / steps.device_window_ns,
            "window_ns": steps.device_window_ns,
        }
        yield Evidence("The device is busy {busy_share} of the {window_ns} between its first and last work.", busy)
    loading_ns = sum(rank.facts.loading_ns for rank in diagnosis.ranks) / max(diagnosis.rank_steps, 1)
    if loading_ns and diagnosis.per_step[Account.INPUT] < _LOADING * step_ns:
        waited: dict[str, float | str] = {"input_share": diagnosis.per_step[Account.INPUT] / step_ns}
        yield Evidence("The data loader keeps up: waiting for it takes {input_share} of the step.", waited)
