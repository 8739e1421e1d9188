"""`redline plan validate` on the command line."""

from __future__ import annotations

from redline.cli.arguments import language
from redline.cli.output import show
from redline.cli.plan.output import add_output, deliver_page, refuse_early

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from redline.planner.validation.validate import Validation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "redline plan validate [options]"
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    spoken = language(options)
    refuse_early(options)
    from redline import validate_plans
    from redline.report.language import speaking
    from redline.report.plan.validate import json, text

    found = validate_plans().validation
    if options.json:
        show(json.render(found))
    else:
        with speaking(spoken):
            show(text.render(found))
    deliver_page(options, lambda: _page(found, spoken))
    return 0


def _page(found: Validation, spoken: str) -> str:
    from redline.planner.validation.validate import memory_points, serving_points, step_points
    from redline.report.html.plan.validate import page
    from redline.report.language import speaking

    with speaking(spoken):
        return page.render(found, step_points(), memory_points(), serving_points())
