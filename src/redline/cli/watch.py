"""`redline watch` on the command line."""

from __future__ import annotations

import argparse
import math

from redline.cli.arguments import add_language, language
from redline.cli.output import for_stdout, remark, show

GRACE_S, POLL_S = 300.0, 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folders",
        nargs="+",
        metavar="FOLDER",
        help="folder of a run, of its digests, or of folders of windows; several where nodes write to several",
    )
    parser.add_argument("--once", action="store_true", help="say what is there, and end")
    parser.add_argument(
        "--grace",
        type=_seconds,
        default=GRACE_S,
        metavar="SECONDS",
        help="how long after its first digest a window waits for the others (default: 300)",
    )
    parser.add_argument(
        "--poll", type=_seconds, default=POLL_S, metavar="SECONDS", help="time between looks at FOLDER (default: 10)"
    )
    parser.add_argument(
        "--export",
        action="append",
        default=[],
        metavar="TO",
        help="openmetrics=FILE, otlp=URL, wandb=PROJECT, mlflow=URI or tensorboard=FOLDER; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print each window as a JSON object on a line")
    add_language(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="no remarks")


def run(options: argparse.Namespace) -> int:
    from redline.monitor.follow import Following
    from redline.report.language import speaking
    from redline.report.watch import json as watch_json
    from redline.report.watch import text as watch_text
    from redline.verbs.watch import watch

    following = Following(grace_s=options.grace, poll_s=options.poll, once=options.once)
    render = watch_json.render if options.json else watch_text.render
    tell = _silent if options.quiet else remark
    windows = 0
    for window in watch(options.folders, following=following, exports=options.export, tell=tell):
        with speaking(language(options)), for_stdout():
            show(render(window))
        windows += 1
    if not windows:
        tell("no window has a digest yet; `redline run --digests` writes them")
    return 0


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def _silent(_: str) -> None:
    pass
