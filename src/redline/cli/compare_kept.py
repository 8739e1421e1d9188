"""`redline compare` of trials that were kept: one is shown again, those of a search are listed."""

from __future__ import annotations

from redline.cli.arguments import format_of, language
from redline.cli.compare_programs import FORMATS
from redline.cli.output import deliver, for_stdout
from redline.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path


def kept_in(paths: Sequence[str]) -> list[Path]:
    """The trials of the only path that was given; none where it has none."""
    from redline.verbs.kept_trials import trial_files

    return trial_files(paths[0]) if len(paths) == 1 else []


def run_kept(options: argparse.Namespace, files: Sequence[Path]) -> int:
    from redline.report.language import speaking
    from redline.report.trial.sentences import headline
    from redline.verbs.kept_trials import kept_trial

    form = format_of(options, FORMATS)
    reports = [kept_trial(file) for file in files]
    if len(reports) > 1 and form != "text":
        raise UsageError(f"compare: {form} is of one trial; give one file of those in {files[0].parent}")
    with speaking(language(options)), for_stdout(options.output if form == "text" else form):
        if len(reports) == 1:
            text = reports[0].rendered(form)
        else:
            lines = (
                f"{file.name}: {headline(report.trial, report.numbers)}"
                if report.trial or report.numbers
                else file.name
                for file, report in zip(files, reports, strict=True)
            )
            text = "\n".join([*lines, ""])
    deliver(text, options.output, force=options.force)
    return 0
