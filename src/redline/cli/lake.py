"""`redline lake` on the command line: what to do with the lake comes first, and each has its own options."""

from __future__ import annotations

import math

from redline.cli.arguments import Deliverable, Loudness, deliver_report, language, refuse_unknown_format
from redline.cli.options import Options, Verb, VerbKinds, flag, value, words
from redline.cli.output import point_to, quoted, show, tell_tracebacks
from redline.cli.show_progress import progress
from redline.cli.values import number, positive
from redline.errors import UsageError

QUESTIONS = {
    "accounts": "GPU hours by account",
    "teams": "GPU hours lost by team; the same for models, clusters, devices",
    "models": "",
    "clusters": "",
    "devices": "",
    "jobs": "jobs that lose most",
    "nodes": "nodes late across jobs, tested against chance",
    "waits": "why ranks were late",
    "changes": "what changed since last week",
    "like": "jobs like --job",
    "findings": "findings worth most, in money with --price",
    "operators": "operators furthest above their roof",
}


class Lake(Options):
    """The lake"""

    lake: str = value("FOLDER", "folder of the lake", required=True)


class LakeAddOptions(Lake, Loudness):
    """Add the digests of one job to a lake; it is diagnosed as a whole, and added again it counts once."""

    verb = "lake add"
    example = "redline lake add digests/ --lake /shared/lake --team vision"
    paths: tuple[str, ...] = words("PATH", "a digest, a folder or a glob pattern; all of one job")
    job: str | None = value("NAME", "id of the job (default: its run, else the folder of its digests)")
    team: str | None = value("NAME", "who pays for it")
    model: str | None = value("NAME", "what it trains or serves")
    cluster: str | None = value("NAME", "where it runs")
    hours: float | None = value(
        "HOURS",
        "hours of each GPU that a window stands for, such as 0.1667 for one every 10 minutes (default: the wall "
        "time of the run by its windows, else the window itself)",
        read=number("a number of hours"),
    )


class LakeAskOptions(Lake, Deliverable):
    """Ask a lake a question by its name, or one SELECT over the tables digests, findings and operators."""

    verb = "lake ask"
    example = "redline lake ask teams --lake /shared/lake --days 7"
    question: str | None = words(
        "QUESTION",
        f"one of: {', '.join(f'{name} ({about})' if about else name for name, about in QUESTIONS.items())}",
        nargs="?",
    )
    sql: str | None = value("SELECT", "SQL instead of a question, such as 'SELECT * FROM digests'")
    days: int | None = value("N", "only the last N days of the lake", read=positive)
    top: int = value("N", "rows of a question (default: 10)", default=10, read=positive)
    job: str | None = value("NAME", "the job of the question like")
    price: float | None = value(
        "PRICE",
        "price of a GPU hour, in any currency",
        read=number("a price above 0", 0, math.nextafter(1e9, 0), above=True),
    )
    json: bool = flag("print JSON instead of text")

    @property
    def form(self) -> str:
        return "json" if self.json else super().form


class LakePruneOptions(Lake):
    """Remove windows that ended more than some days ago from a lake, and merge what is left."""

    verb = "lake prune"
    example = "redline lake prune --lake /shared/lake --days 365"
    days: int = value("N", "keep the last N days, today (UTC) being one", required=True, read=positive)


def _add(options: LakeAddOptions) -> int:
    from redline.lake.rows import JobLabels
    from redline.report.terminal import text_of
    from redline.verbs.lake import add_to_lake

    if options.job == "":
        raise UsageError("lake add: --job is empty; is a variable of the shell unset?")
    labels = JobLabels(
        job=options.job or "",
        team=options.team or "",
        model=options.model or "",
        cluster=options.cluster or "",
        hours=options.hours,
    )
    with progress(options) as tell:
        added = add_to_lake(options.paths, options.lake, labels=labels, progress=tell)
    show(text_of(added.document()))
    tell_tracebacks(added.failures, verbose=options.verbose)
    if not options.quiet:
        point_to(f"redline lake ask accounts --lake {quoted([options.lake])}")
    return 0


def _ask(options: LakeAskOptions) -> int:
    from redline.verbs.lake import ask_lake

    refuse_unknown_format("lake ask", options.output, (".csv", ".html", ".json", ".txt"))
    language(options)
    result = ask_lake(
        options.lake,
        options.question,
        sql=options.sql,
        job=options.job,
        price=options.price,
        days=options.days,
        top=options.top,
    )
    deliver_report(options, result.rendered)
    if options.form == "html" and not options.quiet:
        point_to(f"open {quoted([str(options.output)])} in a browser")
    return 0


def _prune(options: LakePruneOptions) -> int:
    from redline.report.terminal import text_of
    from redline.verbs.lake import prune_lake

    show(text_of(prune_lake(options.lake, options.days).document()))
    return 0


VERB = VerbKinds(
    "lake",
    "Digests of all jobs in one folder of Parquet files, asked by name or with SQL.",
    {
        "add": ("add the digests of one job", Verb(LakeAddOptions, _add)),
        "ask": ("ask a question by its name, or with SQL", Verb(LakeAskOptions, _ask)),
        "prune": ("remove what is older than some days", Verb(LakePruneOptions, _prune)),
    },
    "redline lake ask teams --lake /shared/lake",
)
