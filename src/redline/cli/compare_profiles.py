"""`redline compare` of two profiles of machines on the command line."""

from __future__ import annotations

from redline.cli.arguments import format_of, language
from redline.cli.compare_programs import FORMATS
from redline.cli.output import deliver, for_stdout, speaks_unicode
from redline.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_OF_RECORDINGS = ("against", "save_as", "machine", "fail_on", "redact")


def are_profiles(paths: Sequence[str]) -> bool:
    from redline.verbs.recording_kind import is_profile

    return len(paths) == 2 and all(map(is_profile, paths))


def run_profiles(options: argparse.Namespace) -> int:
    from redline.report.calibrate.profile_comparison import ProfileComparison
    from redline.report.language import speaking
    from redline.verbs.calibrate import compare, load_calibrated

    for name in _OF_RECORDINGS:
        if getattr(options, name):
            raise UsageError(f"compare: --{name.replace('_', '-')} is for recordings; two profiles were given")
    first, second = map(load_calibrated, options.paths)
    result = ProfileComparison(
        comparison=compare(first, second),
        synthetic=first.machine.synthetic or second.machine.synthetic,
        made_by="redline compare",
    )
    form = format_of(options, FORMATS)
    with speaking(language(options)), for_stdout(options.output if form == "text" else form):
        text = result.rendered(form, unicode=options.output is not None or speaks_unicode())
    deliver(text, options.output, force=options.force)
    return 0
