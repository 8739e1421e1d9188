"""Options that several verbs take, and what they mean."""

from __future__ import annotations

import os
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from redline.cli.options import Once, Options, flag, value, words
from redline.cli.output import deliver, for_stdout, remark
from redline.cli.values import positive, regex
from redline.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from redline.job.find_files import TraceFiles
    from redline.job.read_files import JobOptions
    from redline.report.redaction.redactor import Redactor

LANGUAGES = ("en", "zh")
EXECUTORS = ("pool", "ray")
FORMATS = {".csv": "csv", ".html": "html", ".json": "json", ".md": "md", ".txt": "text"}  # by the extension of a file


def _short_language(name: str) -> str:
    """zh of zh-CN or zh_CN.UTF-8; what is no such name stays as it is."""
    return re.split(r"[-_.]", name.lower(), maxsplit=1)[0] or name


class Reading(Options):
    """Reading files"""

    paths: tuple[str, ...] = words("PATH", "a trace, an archive, a folder or a glob pattern")
    strict: bool = flag("fail on damaged traces instead of repairing them")
    jobs: int | None = value("N", "reader processes (default: one per core; one for little data)", read=positive)
    no_cache: bool = flag("read the traces again, even if nothing changed")


class Executor(Options):
    """Reading files"""

    executor: str | None = value(
        "NAME", "what reads the files: pool, processes of this machine (default), or ray", choices=EXECUTORS
    )
    address: str | None = value(
        "ADDRESS", "address of a running Ray cluster (default: $RAY_ADDRESS, or Ray is started on this machine)"
    )


class Stepping(Options):
    """Reading files"""

    step_regex: str | None = value(
        "RE", "regular expression for regions, operators or Python calls that are the steps", read=regex
    )


class Machine(Options):
    """Reading files"""

    machine: str | None = value(
        "NAME|FILE", "peaks to use: a record of `redline hardware`, or a profile (default: by the device's name)"
    )


class Redacting(Options):
    """Output"""

    redact: bool = flag("remove hosts, users, folders, names of traces and secrets, and report what was removed")


class Speaking(Options):
    """Output"""

    lang: str | None = value(
        "LANG", "en or zh (default: $REDLINE_LANG, or en)", read=_short_language, choices=LANGUAGES
    )


class Quiet(Options):
    """Output"""

    quiet: bool = flag("no progress and no remarks", "-q", either="loudness")


class Loudness(Quiet):
    """Output"""

    verbose: bool = flag("tracebacks for files that Redline fails on", "-v", either="loudness")


class OneFile(Options):
    """Output"""

    output: str | None = value("FILE", "write to FILE; the extension sets the format", "-o", action=Once)
    force: bool = flag("replace FILE even if it is not a Redline report")


class TextOrJson(OneFile):
    """Output"""

    json: bool = flag("print JSON instead of text")

    @property
    def wants_json(self) -> bool:
        return self.json or str(self.output or "").endswith(".json")


def formats(*forms: str) -> Any:
    """The option `--format`: each form by its name, with what there is to say of it."""
    names = [form.partition(" ")[0] for form in forms]
    told = f"{', '.join(forms)} (default: by the extension of FILE, else text)"
    return value("FORMAT", told, choices=sorted(names), also={"--json": "json"})


class Deliverable(OneFile, Quiet, Speaking):
    """Output"""

    @property
    def form(self) -> str:
        """By the extension of the file that is written, else text."""
        from pathlib import Path

        return FORMATS.get(Path(self.output or "").suffix, "text")


class Report(Deliverable, Loudness):
    """Output"""

    format: str | None = formats("text", "html", "md", "json", "csv")

    @property
    def form(self) -> str:
        return self.format or super().form


def language(options: Options) -> str:
    """The one that was asked for; what the locale says is not, as programs read the output."""
    asked = getattr(options, "lang", None)
    chosen = _short_language(str(asked or os.environ.get("REDLINE_LANG") or LANGUAGES[0]))
    if chosen not in LANGUAGES:
        raise UsageError(f"REDLINE_LANG is {chosen!r}; it can be {' or '.join(LANGUAGES)}")
    return chosen


def deliver_report(options: Deliverable, render: Callable[[str], str]) -> None:
    """The text of a form, in the language that was asked for, to where it goes."""
    from redline.report.language import speaking

    form = options.form
    with speaking(language(options)), for_stdout(options.output if form == "text" else form):
        text = render(form)
    deliver(text, options.output, force=options.force)


def refuse_unprintable_page(options: Report) -> None:
    if options.form == "html" and options.output is None:
        raise UsageError(f"{options.verb}: an HTML report is 2 MB of text; give it a file, such as -o report.html")


def refuse_unknown_format(verb: str, output: str | None, endings: Sequence[str] = (".json", ".txt")) -> None:
    """A name without an extension is one of a text."""
    from pathlib import Path

    if output is not None and Path(output).suffix:
        refuse_other_endings(verb, [output], endings)


def refuse_other_endings(verb: str, outputs: Sequence[str], endings: Sequence[str]) -> None:
    for output in outputs:
        if not output.endswith(tuple(endings)):
            known = f"{', '.join(endings[:-1])} or {endings[-1]}"
            raise UsageError(f"{verb}: {output}: {verb} writes {known}; give the file such a name")


def job_options(options: Any) -> JobOptions:
    """How the files of a job are read, by those of the options above that a verb has."""
    from redline.job.read_files import JobOptions
    from redline.trace.cache import cache_folder
    from redline.trace.entries import why_unusable
    from redline.trace.reader import ReadOptions

    folder = None if options.no_cache or options.quiet else cache_folder()
    if folder is not None and (why := why_unusable(folder)):
        _remark_once(f"the cache is not used: {why}")
    return JobOptions(
        reading=ReadOptions(step_regex=getattr(options, "step_regex", None), strict=options.strict),
        jobs=options.jobs,
        executor=getattr(options, "executor", None) or "pool",
        address=getattr(options, "address", None),
        use_cache=not options.no_cache,
        model=getattr(options, "model", None),
    )


@cache
def _remark_once(text: str) -> None:
    remark(text)


def redacting(options: Any, run: Callable[[Any, TraceFiles, Redactor | None], int], *, digests: bool) -> int:
    """Run a verb on the files that were named, with a redactor where one was asked for: then its errors are clean too.

    `digests` says whether the verb takes digests as well as traces.
    """
    from redline.job.find_files import TraceFiles

    files = TraceFiles(options.paths, digests=digests)
    if not options.redact:
        return run(options, files, None)
    from redline.report.redaction.redactor import Redactor

    redactor = Redactor()
    output = [options.output] if options.output else []
    with redactor.in_errors(lambda: [*options.paths, *output, *map(str, files.found)]):
        return run(options, files, redactor)
