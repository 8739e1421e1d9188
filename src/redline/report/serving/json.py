"""What is known of a serving engine, for programs; docs/reference/serving.md describes every field."""

from dataclasses import asdict
from typing import Any

from redline.report.data import code
from redline.report.serving.account_names import REQUEST_ACCOUNT_NAMES, STEP_ACCOUNT_NAMES
from redline.report.serving.cause_messages import cause_text
from redline.serving.diagnose_serving import ServingDiagnosis
from redline.serving.request_ledger import RequestAccount
from redline.serving.step_ledger import StepAccount


def record_of(serving: ServingDiagnosis) -> dict[str, Any]:
    steps = asdict(serving.steps)
    amounts = steps.pop("amounts_ns")
    return {
        "engine": serving.engine,
        "settings": dict(serving.settings),
        "steps": {**steps, "accounts_ns": {code(STEP_ACCOUNT_NAMES[one]): amounts[one] for one in StepAccount}},
        "requests": serving.requests,
        "left_out": serving.left_out,
        "new_tokens": serving.new_tokens,
        "preempted": serving.preempted,
        "latencies": [
            {
                "latency": code(split.latency),
                "percentile": split.percentile,
                "value_ns": split.value_ns,
                "requests": split.requests,
                "waited_for_ns": {code(REQUEST_ACCOUNT_NAMES[one]): split.amounts_ns[one] for one in RequestAccount},
            }
            for split in serving.splits
        ],
        "causes": [
            {**asdict(cause), "latency": code(cause.latency), **asdict(cause_text(cause))} for cause in serving.causes
        ],
        "metrics": [asdict(check) for check in serving.metrics],
        "dropped_lines": serving.dropped_lines,
        "engines": serving.engines,
    }
