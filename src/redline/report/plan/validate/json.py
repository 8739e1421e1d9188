"""The accuracy of plans as JSON for machines; docs/reference/plan.md describes every field."""

from typing import Any

from redline.artifacts import Envelope
from redline.plan.validation import Validation
from redline.report.data import json_text
from redline.report.plan.json_values import plain

KIND = "plan-validation"
SCHEMA_VERSION = 3


def render(validation: Validation) -> str:
    return json_text(as_record(validation))


def as_record(validation: Validation) -> dict[str, Any]:
    envelope = Envelope(kind=KIND, schema_version=SCHEMA_VERSION, made_by="redline plan validate")
    step, memory = validation.step, validation.memory
    return {
        **envelope.to_dict(),
        "left_out": {name: plain(getattr(validation.left_out, name)) for name in ("every", "stacks", "peers")},
        "step": {
            **{name: plain(getattr(step, name)) for name in ("dense", "megatron", "stacks", "kinds", "everything")},
            "choice": plain(step.choice),
            "expressible": step.expressible,
            "siblings": step.siblings,
            "reasons": [{"reason": reason, "runs": count} for reason, count in step.reasons],
        },
        "memory": {
            "peaks": plain(memory.peaks),
            "verdicts": plain(memory.verdicts),
            "left_out": [{"reason": reason, "runs": count} for reason, count in memory.left_out.items()],
        },
        "serving": plain(validation.serving),
        "serving_groups": plain(validation.serving_groups),
        "first_token_repeats": plain(validation.first_token_repeats),
    }
