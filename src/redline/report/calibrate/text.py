"""A calibration as text for a terminal: what is wrong first, then every family with its intervals."""

from collections.abc import Iterator, Sequence

from redline.hardware.machine import Machine
from redline.probes.calibration_record import Calibration
from redline.report.calibrate import messages as say
from redline.report.calibrate import tables
from redline.report.calibrate.usable_messages import unusable
from redline.report.display import Style, columns, styled
from redline.report.language import _
from redline.report.report_table import ReportTable
from redline.report.terminal import as_text, headline, labelled, wrapped
from redline.report.text_table import table

_LABEL_WIDTH = 10
_PLAIN = str.maketrans({"±": "~"})


def render(calibration: Calibration, machine: Machine, *, unicode: bool = True) -> str:
    """Without `unicode`, intervals are marked with a letter that every terminal has."""
    blocks = [
        [
            *headline(say.headline(calibration)),
            *_facts(calibration, machine),
        ],
        list(_troubles(calibration)),
        *(list(_block(report_table)) for report_table in _tables(calibration, machine)),
        list(_experiments(calibration)),
        *_collectives(calibration),
        list(_declined(calibration)),
    ]
    return joined(blocks, unicode=unicode)


def joined(blocks: Sequence[Sequence[str]], *, unicode: bool) -> str:
    """Blocks that have lines, with an empty line between them."""
    text = as_text(blocks)
    return text if unicode else text.translate(_PLAIN)


def _facts(calibration: Calibration, machine: Machine) -> Iterator[str]:
    yield from fact(_("software"), say.software(calibration.subject))
    yield from fact(_("samples"), say.samples(calibration))
    yield from fact(_("noise"), say.noise(calibration.conditions))
    yield from fact(_("unusable"), unusable(machine))


def fact(label: str, text: str) -> list[str]:
    return labelled(label, text, _LABEL_WIDTH, indent="  ") if text else []


def _troubles(calibration: Calibration) -> Iterator[str]:
    lines = list(say.troubles(calibration.collectives))
    if not lines:
        return
    yield _("what is wrong")
    for line in lines:
        yield from wrapped(line, columns(), styled("  ! ", Style.ERROR))


def _tables(calibration: Calibration, machine: Machine) -> Iterator[ReportTable]:
    yield tables.kernels(calibration, machine)
    yield tables.laws(calibration, verbose=False)
    yield tables.bandwidths(calibration, verbose=False)
    yield tables.movements(calibration)
    yield tables.overheads(calibration)
    yield tables.loaders(calibration)


def _block(report_table: ReportTable) -> Iterator[str]:
    if not report_table.rows:
        return
    yield report_table.title
    yield from (f"  {line}" for line in table(report_table.head, report_table.rows))
    for note in report_table.notes:
        yield from wrapped(styled(note, Style.SECONDARY), columns(), "  ")


def _experiments(calibration: Calibration) -> Iterator[str]:
    facts: Sequence[tuple[str, str]] = (
        (_("doubling"), say.doubling(calibration)),
        (_("roofline"), say.ridge(calibration)),
    )
    if any(text for _label, text in facts):
        yield _("experiments")
        for label, text in facts:
            yield from fact(label, text)


def _collectives(calibration: Calibration) -> Iterator[list[str]]:
    measured = calibration.collectives
    if measured is None:
        return
    shown = tables.collectives(measured, verbose=False)
    about = _("{title}: {group}").format(title=shown.title, group=say.group_of_processes(measured))
    lines = [about, *list(_block(shown))[1:]]
    if not list(say.troubles(measured)):
        lines += wrapped(say.health(measured), columns(), "  ")
    yield lines


def _declined(calibration: Calibration) -> Iterator[str]:
    missing = [*calibration.declined, *(calibration.collectives.declined if calibration.collectives else ())]
    if not missing:
        return
    yield _("not measured")
    for declined in missing:
        yield from wrapped(styled(say.declined(declined), Style.SECONDARY), columns(), "  - ")
