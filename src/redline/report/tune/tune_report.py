"""What `redline.tune` returns: every renderer takes its result, and it shows and saves itself."""

from dataclasses import dataclass
from pathlib import Path

from redline.artifacts import write_atomic
from redline.errors import UsageError
from redline.storage import path_of
from redline.tuning.tune_result import TuneResult

_SAVED = {".csv": "csv", ".html": "html", ".json": "json", ".md": "md", ".txt": "text"}


@dataclass(frozen=True, kw_only=True, repr=False)
class TuneReport:
    """A search for better settings, for people and programs."""

    result: TuneResult

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """A page (.html), everything for programs (.json), a comment for a pull request (.md), the ladder (.csv), or
        text (.txt), by how the name ends.
        """
        form = _SAVED.get(path_of(path).suffix)
        if form is None:
            raise UsageError(f"{path}: a search is saved as {', '.join(_SAVED)}; give the file such a name")
        text = self.rendered(form)
        with write_atomic(path_of(path), force=force) as file:
            file.write(text.encode(errors="backslashreplace"))

    def rendered(self, form: str) -> str:
        """As html, json, md, csv or text."""
        from redline.report.tune import csv, json, md, text

        if form == "html":
            from redline.report.html.tune import page

            return page.render(self.result)
        renderers = {"json": json.render, "csv": csv.render, "md": md.render, "text": text.render}
        return renderers[form](self.result)

    def __repr__(self) -> str:
        from redline.report.tune.ladder import ladder_rows
        from redline.report.tune.sentences import headline

        return f"<redline tuning: {headline(self.result, ladder_rows(self.result))}>"
