"""What is known of a serving engine, as text for a terminal."""

from collections.abc import Iterator

from redline.report.display import columns
from redline.report.language import _
from redline.report.serving.serving_tables import cause_lines, engine_line, latency_table, metrics_line
from redline.report.terminal import labelled, table, wrapped
from redline.serving.diagnose_serving import ServingDiagnosis

_LABEL_WIDTH = 10
_INDENT = "     "


def blocks(serving: ServingDiagnosis) -> list[list[str]]:
    shown = latency_table(serving)
    latencies = [shown.title, *(f"  {line}".rstrip() for line in table(shown.head, shown.rows))]
    lines = {_("engine"): engine_line(serving), _("metrics"): metrics_line(serving)}
    told = [line for label, text in lines.items() if text for line in labelled(label, text, _LABEL_WIDTH)]
    return [[*latencies, *told], list(_causes(serving))]


def _causes(serving: ServingDiagnosis) -> Iterator[str]:
    if not serving.causes:
        yield _("No rule names a cause for what requests wait for.")
        return
    yield _("why requests wait, what costs the slowest most first")
    for number, (title, evidence, fix) in enumerate(cause_lines(serving), start=1):
        yield from wrapped(f"{title}.", columns(), f"  {number}. ", _INDENT)
        yield from wrapped(evidence, columns(), _INDENT, _INDENT)
        yield from wrapped(_("Fix: {fix}").format(fix=fix), columns(), _INDENT, _INDENT)
