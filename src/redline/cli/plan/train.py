"""`redline plan train` on the command line."""

from __future__ import annotations

import argparse

from redline.cli.arguments import language, positive
from redline.cli.output import point_to, quoted
from redline.cli.plan.job import add_job
from redline.cli.plan.layout import add_layout, layout_of
from redline.cli.plan.model import add_model, numbers_of
from redline.cli.plan.numbers import above_zero, count, settings, several, share, size
from redline.cli.plan.output import (
    REPORTS,
    SCRIPT,
    STDOUT,
    add_emit,
    add_output,
    deliver_reports,
    refuse_early,
    refuse_scripts,
)
from redline.cli.show_progress import progress
from redline.errors import UsageError
from redline.planner.train.training_choices import ACCEPTED_CHANCE, BY, FRAMEWORKS, PRECISIONS, TOP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from redline.verbs.plan_results import PlannedTraining

USAGE = "redline plan train --model MODEL --machine NAME|FILE --gpus N --sequence N --batch N [options]"
TRACE = ".json.gz"
FORMS = {**REPORTS, TRACE: "the predicted step as a trace", SCRIPT: "the launch script of --emit"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = USAGE
    add_model(parser, modules=True)
    _add_machine(parser.add_argument_group("the machine and the batch"))
    add_layout(parser)
    _add_choice(parser.add_argument_group("which layout is the best"))
    add_job(parser)
    add_emit(parser.add_argument_group("running it"), FRAMEWORKS, "FRAMEWORK", "the best layout as a launch script")
    add_output(parser.add_argument_group("output"), FORMS)


def _add_machine(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--machine", metavar="NAME|FILE", required=True, help="a record of `redline hardware`, or a profile"
    )
    group.add_argument("--gpus", type=several, metavar="N", required=True, help="number of GPUs; 32,64,128 plans each")
    group.add_argument(
        "--gpus-per-node",
        type=positive,
        default=0,
        metavar="N",
        help="GPUs that share fast links (default: as the machine's record says)",
    )
    group.add_argument(
        "--nic-gbit",
        type=above_zero,
        default=0.0,
        metavar="GBIT",
        help="network between nodes, Gbit/s per GPU (default: a typical one)",
    )
    group.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="bf16",
        metavar="TYPE",
        help=f"{', '.join(PRECISIONS)} (default: bf16)",
    )
    group.add_argument("--stack", metavar="NAME", help="software stack; an unknown name lists all (default: usual)")
    group.add_argument(
        "--footprint",
        type=settings,
        metavar="NAME=NUMBER,...",
        help="memory footprint of your software, such as moment_bytes=2 (default: that of the stack)",
    )
    group.add_argument(
        "--measured", metavar="RUN|step=TIME,...", help="a step of this job that ran here: fit the constants to it"
    )
    group.add_argument(
        "--measured-layout", metavar="NAME=VALUE,...", help="of --measured RUN, what its recording does not say"
    )
    group.add_argument("--sequence", type=size, metavar="N", help="tokens per sequence; custom modules have none")
    sizes = group.add_mutually_exclusive_group(required=True)
    sizes.add_argument("--batch", type=size, metavar="N", help="sequences (or samples) per step, over all GPUs")
    sizes.add_argument("--batch-tokens", type=count, metavar="COUNT", help="tokens per step, such as 4194304")


def _add_choice(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--by", choices=BY, default=BY[0], metavar="WHAT", help="speed (default), memory or cost")
    group.add_argument(
        "--accept-chance",
        type=share,
        default=ACCEPTED_CHANCE,
        metavar="SHARE",
        help=f"highest accepted OOM probability (default: {ACCEPTED_CHANCE})",
    )
    group.add_argument("--top", type=positive, default=TOP, metavar="N", help=f"layouts to list (default: {TOP})")


def run(options: argparse.Namespace) -> int:
    spoken = language(options)
    refuse_early(options, FORMS)
    refuse_scripts(options, FRAMEWORKS)
    from redline import plan_training
    from redline.report.html.plan.train import page
    from redline.report.plan.train import json

    with progress(options) as tell:
        planned = plan_training(
            options.model,
            numbers=numbers_of(options),
            machine=options.machine,
            gpus=options.gpus,
            batch=_sequences(options),
            sequence=options.sequence,
            precision=options.precision,
            stack=options.stack,
            layout=layout_of(options),
            footprint=options.footprint,
            gpus_per_node=options.gpus_per_node,
            nic_gbit=options.nic_gbit,
            by=options.by,
            accept_chance=options.accept_chance,
            top=options.top,
            measured=options.measured,
            measured_layout=options.measured_layout,
            tokens=options.tokens,
            price=options.price,
            failures=options.failures,
            recovery=options.recovery,
            storage_bytes_per_s=options.storage,
            pue=options.pue,
            progress=tell,
        )
    renderers = {
        ".html": lambda _: page.render(planned.plan, planned.job, sizes=planned.sizes),
        ".json": lambda _: json.render(planned.plan, planned.job, sizes=planned.sizes),
        ".txt": lambda unicode: _text(planned, unicode=unicode),
    }
    if options.emit:
        script = planned.launch_script(options.emit)
        renderers |= {SCRIPT: lambda _: script, STDOUT: lambda _: script}
    deliver_reports(options, spoken, renderers)
    _write_traces(planned, options)
    return 0


def _sequences(options: argparse.Namespace) -> int:
    from math import log2

    if options.batch is not None:
        return int(options.batch)
    if options.sequence is None:
        raise UsageError("plan train: --batch-tokens needs --sequence; a module of your own has samples: give --batch")
    sequences, rest = divmod(options.batch_tokens, options.sequence)
    if rest or not sequences:
        near = 1 << max(0, round(log2(max(sequences, 1))))  # copies divide a power of two best
        raise UsageError(
            f"plan train: --batch-tokens {options.batch_tokens:,} is no multiple of --sequence {options.sequence:,}\n"
            f"give the sequences themselves, such as --batch {near} ({near * options.sequence:,} tokens)"
        )
    return int(sequences)


# --- output -----------------------------------------------------------------------------------------------------------


def _text(planned: PlannedTraining, *, unicode: bool) -> str:
    from redline.report.plan.train import sizes, text

    several_sizes = len(planned.sizes) + len(planned.refused) > 1
    head = sizes.render(planned.sizes, planned.refused, planned.plan) if several_sizes else ""
    return head + text.render(planned.plan, planned.job, unicode=unicode)


def _write_traces(planned: PlannedTraining, options: argparse.Namespace) -> None:
    for name in options.output:
        if name.endswith(TRACE):
            planned.save_trace(name, force=options.force)
            if not options.quiet:
                point_to(f"redline diagnose {quoted([name])}")
