"""`redline plan` on the command line: what to plan comes first, and each kind of plan has its own options."""

from __future__ import annotations

from redline.cli.verb_kinds import VerbKind, VerbKinds
from redline.errors import ParameterError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

PLAN = VerbKinds(
    "plan",
    "Predict what a job should cost before it runs, with an interval.",
    {
        "train": VerbKind(
            "a training job: time, memory and cost of a step, the best layout, the whole job",
            "Predict what a training job should cost before it runs, and find the best layout.",
        ),
        "serve": VerbKind(
            "serving: time to the first token, time per token, throughput, by size and precision",
            "Predict latency and throughput of serving a model, and find the best configuration.",
        ),
        "validate": VerbKind(
            "how well plans predict published measurements",
            "Compare plans with the published measurements that come with Redline.",
        ),
    },
    "redline plan train --model llama-3.1-8b --machine H100-SXM5-80GB --gpus 64 --sequence 8192 --batch 512",
)
add_arguments, parse = PLAN.add_arguments, PLAN.parse
# Options that are not called like the parameter of `redline.plan_training` or `redline.plan_serving` that they set.
OPTIONS = {"flash": "no-flash", "storage_bytes_per_s": "storage", "max_ttft_s": "max-ttft", "max_tpot_s": "max-tpot"}


def run(options: argparse.Namespace) -> int:
    try:
        return PLAN.run(options)
    except ParameterError as error:
        option = OPTIONS.get(error.parameter, error.parameter.replace("_", "-"))
        raise UsageError(f"plan {options.kind}: --{option}{error.problem}") from error
