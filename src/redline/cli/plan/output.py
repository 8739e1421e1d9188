"""What every kind of plan can write: text or JSON on stdout, and files in the form that their names end in."""

from __future__ import annotations

from redline.cli.arguments import add_language, refuse_other_endings
from redline.cli.output import deliver, for_stdout, point_to, quoted, show, speaks_unicode

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

STDOUT = "-"
"""The key of a renderer whose text is printed instead of the plan's."""
SCRIPT = ".sh"
REPORTS = {".html": "the page", ".json": "the figures", ".txt": "the text"}


def add_output(parser: argparse._ActionsContainer, forms: Mapping[str, str] = REPORTS) -> None:
    kinds = ", ".join(f"{ending} {what}" for ending, what in forms.items())
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        action="append",
        default=[],
        help=f"also write FILE; the extension sets the format: {kinds}; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--force", action="store_true", help="replace files even if they are not Redline reports")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress and no remarks")
    add_language(parser)


def add_emit(group: argparse._ArgumentGroup, names: Sequence[str], metavar: str, what: str) -> None:
    group.add_argument(
        "--emit", choices=names, metavar=metavar, help=f"print {what}, instead of the plan: {', '.join(names)}"
    )


def refuse_scripts(options: argparse.Namespace, names: Sequence[str]) -> None:
    from redline.errors import UsageError

    if options.emit and options.json:
        raise UsageError(
            f"plan {options.kind}: --emit prints a launch script, --json figures: give -o FILE.json for both"
        )
    if not options.emit and any(name.endswith(SCRIPT) for name in options.output):
        raise UsageError(f"plan {options.kind}: -o FILE{SCRIPT} needs --emit, with one of: {', '.join(names)}")


def refuse_early(options: argparse.Namespace, forms: Mapping[str, str] = REPORTS) -> None:
    """What cannot be written is said before anything is computed."""
    from redline.artifacts import refuse_unless_writable
    from redline.storage import path_of

    refuse_other_endings(f"plan {options.kind}", options.output, tuple(forms))
    for name in options.output:
        refuse_unless_writable(path_of(name), force=options.force)


def deliver_reports(options: argparse.Namespace, spoken: str, renderers: Mapping[str, Callable[[bool], str]]) -> None:
    """One on stdout, and those that were asked for in files. Renderers take whether they may use all of Unicode."""
    from pathlib import Path

    from redline.report.language import speaking

    def render(ending: str, *, unicode: bool) -> str:
        with speaking("en" if ending == ".json" else spoken):
            return renderers[ending](unicode)

    with for_stdout():
        printed = STDOUT if STDOUT in renderers else ".json" if options.json else ".txt"
        show(render(printed, unicode=speaks_unicode()))
    for name in options.output:
        ending = Path(name).suffix
        if ending in renderers:
            deliver(render(ending, unicode=True), name, force=options.force)
        if ending == ".html" and not options.quiet:
            point_to(f"open {quoted([name])} in a browser")
