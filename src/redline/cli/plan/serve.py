"""`redline plan serve` on the command line."""

from __future__ import annotations

import argparse

from redline.cli.arguments import language, positive
from redline.cli.plan.model import add_model, numbers_of
from redline.cli.plan.numbers import above_zero, several, size, time_s
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
from redline.planner.serve.serving_defaults import ENGINE, ENGINES, LOADS, SIZES

USAGE = "redline plan serve --model MODEL --machine NAME|FILE --prompt N --output-tokens N [options]"

FORMS = {**REPORTS, SCRIPT: "the launch script of --emit"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = USAGE
    add_model(parser)
    _add_machine(parser.add_argument_group("the machine and the engine"))
    _add_traffic(parser.add_argument_group("the requests"))
    add_emit(
        parser.add_argument_group("running it"), ENGINES, "ENGINE", "the best way to serve as the engine's command"
    )
    add_output(parser.add_argument_group("output"), FORMS)


def _add_machine(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--machine", metavar="NAME|FILE", required=True, help="a record of `redline hardware`, or a profile"
    )
    group.add_argument(
        "--gpus", type=positive, metavar="N", help="number of GPUs to fill with replicas (default: one replica)"
    )
    group.add_argument(
        "--tp", type=several, default=SIZES, metavar="N", help=f"GPUs per replica (default: {_listed(SIZES)})"
    )
    group.add_argument(
        "--precision",
        type=_names,
        default=("bf16",),
        metavar="TYPES",
        help="weight formats, such as bf16,fp8 (default: bf16)",
    )
    group.add_argument("--cache", default="bf16", metavar="TYPE", help="KV cache format: bf16 (default) or fp8")
    group.add_argument(
        "--engine",
        default=ENGINE,
        metavar="NAME",
        help=f"serving engine; an unknown name lists all (default: {ENGINE})",
    )
    group.add_argument(
        "--measured", metavar="RUN", help="a watched run of an engine on this machine, instead of --engine"
    )
    group.add_argument("--price", type=above_zero, metavar="AMOUNT", help="price per GPU-hour, in any currency")


def _add_traffic(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--prompt", type=size, metavar="N", required=True, help="prompt tokens")
    group.add_argument("--output-tokens", type=size, metavar="N", required=True, help="output tokens")
    group.add_argument(
        "--concurrency",
        type=several,
        default=LOADS,
        metavar="N",
        help=f"concurrent requests per replica (default: {LOADS[0]} to {LOADS[-1]})",
    )
    group.add_argument(
        "--max-ttft", type=time_s, metavar="TIME", help="limit of the mean time to first token, such as 500ms"
    )
    group.add_argument(
        "--max-tpot", type=time_s, metavar="TIME", help="limit of the mean time per output token, such as 50ms"
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip().lower() for word in text.split(",")))


def _listed(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def run(options: argparse.Namespace) -> int:
    spoken = language(options)
    refuse_early(options, FORMS)
    refuse_scripts(options, ENGINES)
    from redline import plan_serving
    from redline.report.html.plan.serve import page
    from redline.report.plan.serve import json, text

    planned = plan_serving(
        options.model,
        numbers=numbers_of(options),
        machine=options.machine,
        prompt=options.prompt,
        output_tokens=options.output_tokens,
        gpus=options.gpus,
        tp=options.tp,
        precision=options.precision,
        cache=options.cache,
        engine=options.engine,
        concurrency=options.concurrency,
        max_ttft_s=options.max_ttft,
        max_tpot_s=options.max_tpot,
        price=options.price,
        measured=options.measured,
    )
    plan = planned.plan
    renderers = {
        ".html": lambda _: page.render(plan),
        ".json": lambda _: json.render(plan),
        ".txt": lambda _: text.render(plan),
    }
    if options.emit:
        script = planned.launch_script(options.emit)
        renderers |= {SCRIPT: lambda _: script, STDOUT: lambda _: script}
    deliver_reports(options, spoken, renderers)
    return 0
