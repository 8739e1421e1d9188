"""What `redline.compare` returns: every renderer takes it, and it shows and saves itself."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from redline.artifacts import write_atomic
from redline.errors import UsageError
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.language import _, sentences
from redline.storage import path_of
from redline.trials.recordings import RecordingDifference

if TYPE_CHECKING:
    from redline.report.redaction.redactor import Redactor, Removed

_SAVED = {".csv": "csv", ".html": "html", ".json": "json", ".md": "md", ".txt": "text"}


@dataclass(frozen=True, kw_only=True, repr=False)
class CompareResult:
    """Two recordings, each diagnosed, and what differs between them."""

    names: tuple[str, str]  # as they were given
    before: DiagnoseResult
    after: DiagnoseResult
    difference: RecordingDifference
    removed: "tuple[Removed, ...] | None" = None  # by redaction; None where nothing was looked for

    @property
    def about(self) -> str:
        """Which ranks each is about, where files could not be read; "" where all could."""
        said = [(_("before"), self.before.about), (_("after"), self.after.about)]
        return sentences(f"{side}: {about}" for side, about in said if about)

    def redacted(self, redactor: "Redactor | None" = None) -> "CompareResult":
        """Without hosts, users, folders, names of traces and secrets; `removed` says what was taken out."""
        from redline.report.redaction.redactor import Redactor

        redactor = redactor or Redactor()
        redactor.learn(self)
        names = (redactor.file(self.names[0]), redactor.file(self.names[1]))
        clean = redactor.redacted(replace(self, names=names, difference=_without_private(self.difference, redactor)))
        return replace(clean, difference=_with_own_names(clean.difference, self.difference), removed=redactor.removed)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """A page (.html), everything for programs (.json), a comment for a pull request (.md), the accounts (.csv), or
        text (.txt), by how the name ends.
        """
        form = _SAVED.get(path_of(path).suffix)
        if form is None:
            raise UsageError(f"{path}: a comparison is saved as {', '.join(_SAVED)}; give the file such a name")
        text = self.rendered(form)
        with write_atomic(path_of(path), force=force) as file:
            file.write(text.encode(errors="backslashreplace"))

    def rendered(self, form: str, *, verbose: bool = False) -> str:
        """As html, json, md, csv or text."""
        from redline.report.compare import csv, json, md, text

        if form == "json":
            return json.render(self)
        if form == "csv":
            return csv.render(self)
        if form == "html":
            from redline.report.html.compare import page

            return page.render(self)
        return md.render(self, verbose=verbose) if form == "md" else text.render(self, verbose=verbose)

    def __repr__(self) -> str:
        from redline.report.compare.sentences import verdict_sentence

        return f"<redline comparison: {verdict_sentence(self.difference)}>"


def _without_private(difference: RecordingDifference, redactor: "Redactor") -> RecordingDifference:
    """A short name of a host does not look private where it stands alone."""

    def hosts(text: str) -> str:
        return "; ".join(map(redactor.host, text.split("; ")))

    context = [
        replace(row, before=hosts(row.before), after=hosts(row.after)) if row.what == "hosts" else row
        for row in difference.context
    ]
    return replace(difference, context=tuple(context))


def _with_own_names(clean: RecordingDifference, original: RecordingDifference) -> RecordingDifference:
    """Names that Redline gives are no secret, even where a host is named like one of them, such as `math`."""
    rows = zip(clean.context, original.context, strict=True)
    return replace(
        original,
        operators=clean.operators,
        collectives=clean.collectives,
        context=tuple(replace(row, what=own.what) for row, own in rows),
    )
