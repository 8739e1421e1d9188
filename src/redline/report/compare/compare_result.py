"""What `redline.compare` returns: every renderer takes it, and it shows and saves itself."""

from dataclasses import dataclass
from pathlib import Path

from redline.artifacts import write_atomic
from redline.errors import UsageError
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.trials.recordings import RecordingDifference

_SAVED = {".csv": "csv", ".html": "html", ".json": "json", ".md": "md", ".txt": "text"}


@dataclass(frozen=True, kw_only=True, repr=False)
class CompareResult:
    """Two recordings, each diagnosed, and what differs between them."""

    names: tuple[str, str]  # as they were given
    before: DiagnoseResult
    after: DiagnoseResult
    difference: RecordingDifference

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """A page (.html), everything for programs (.json), a comment for a pull request (.md), the accounts (.csv), or
        text (.txt), by how the name ends.
        """
        form = _SAVED.get(Path(path).suffix)
        if form is None:
            raise UsageError(f"{path}: a comparison is saved as {', '.join(_SAVED)}; give the file such a name")
        text = self.rendered(form)
        with write_atomic(Path(path), force=force) as file:
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
