"""`redline plan validate` on the command line."""

from __future__ import annotations

from redline.cli.arguments import language
from redline.cli.plan.output import add_output, deliver_reports, refuse_early
from redline.cli.show_progress import progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "redline plan validate [options]"
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    spoken = language(options)
    refuse_early(options)
    from redline import validate_plans
    from redline.planner.validation.validate import memory_points, serving_points, step_points
    from redline.report.html.plan.validate import page
    from redline.report.plan.validate import json, text

    with progress(options) as tell:
        validation = validate_plans(tell).validation
    renderers = {
        ".html": lambda _: page.render(validation, step_points(), memory_points(), serving_points()),
        ".json": lambda _: json.render(validation),
        ".txt": lambda _: text.render(validation),
    }
    deliver_reports(options, spoken, renderers)
    return 0
