"""`redline watch` on the command line."""

from __future__ import annotations

import math

from redline.cli.arguments import Quiet, Speaking, language
from redline.cli.options import Verb, flag, value, values, words
from redline.cli.output import for_stdout, remark, show
from redline.cli.values import number

_seconds = number("a number of seconds above 0", 0, math.nextafter(math.inf, 0), above=True)


class WatchOptions(Quiet, Speaking):
    """Follow a long job's digests: a line per window, and what drifts, is late or falls silent."""

    verb = "watch"
    example = "redline watch redline-runs/train-1 --export openmetrics=redline.prom"
    folders: tuple[str, ...] = words(
        "FOLDER", "folder of a run, of its digests, or of folders of windows; several where nodes write to several"
    )
    once: bool = flag("say what is there, and end")
    grace: float = value(
        "SECONDS",
        "how long after its first digest a window waits for the others (default: 300)",
        default=300.0,
        read=_seconds,
    )
    poll: float = value("SECONDS", "time between looks at FOLDER (default: 10)", default=10.0, read=_seconds)
    export: tuple[str, ...] = values(
        "TO", "openmetrics=FILE, otlp=URL, wandb=PROJECT, mlflow=URI or tensorboard=FOLDER; may be repeated"
    )
    json: bool = flag("print each window as a JSON object on a line")


def run(options: WatchOptions) -> int:
    from redline.report.language import speaking
    from redline.report.watch import json_line, window_text
    from redline.verbs.watch import watch
    from redline.watch.follow import Following

    def tell(text: str) -> None:
        if not options.quiet:
            remark(text)

    following = Following(grace_s=options.grace, poll_s=options.poll, once=options.once)
    render = json_line if options.json else window_text
    windows = 0
    for window in watch(options.folders, following=following, exports=options.export, tell=tell):
        with speaking(language(options)), for_stdout():
            show(render(window))
        windows += 1
    if not windows:
        tell("no window has a digest yet; `redline run --digests` writes them")
    return 0


VERB = Verb(WatchOptions, run)
