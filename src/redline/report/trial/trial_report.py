"""What `redline.compare_programs` returns: every renderer takes it, and it shows and saves itself."""

from dataclasses import dataclass
from pathlib import Path

from redline.artifacts import write_atomic
from redline.errors import UsageError
from redline.storage import path_of
from redline.trials.numbers.check import NumbersResult
from redline.trials.trial_result import TrialResult

_SAVED = {".csv": "csv", ".html": "html", ".json": "json", ".md": "md", ".txt": "text"}


@dataclass(frozen=True, kw_only=True, repr=False)
class TrialReport:
    """A change that was tried, for people and programs."""

    trial: TrialResult | None  # None where only the numbers were checked
    numbers: NumbersResult | None = None  # None where they were not

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """A page (.html), everything for programs (.json), a comment for a pull request (.md), the pairs (.csv), or
        text (.txt), by how the name ends.
        """
        form = _SAVED.get(path_of(path).suffix)
        if form is None:
            raise UsageError(f"{path}: a comparison is saved as {', '.join(_SAVED)}; give the file such a name")
        text = self.rendered(form)
        with write_atomic(path_of(path), force=force) as file:
            file.write(text.encode(errors="backslashreplace"))

    def rendered(self, form: str) -> str:
        """As html, json, md, csv or text."""
        from redline.report.trial import csv, json, md, text

        if form == "html":
            from redline.report.html.trial import page

            return page.render(self.trial, self.numbers)
        renderers = {"json": json.render, "csv": csv.render, "md": md.render, "text": text.render}
        return renderers[form](self.trial, self.numbers)

    def __repr__(self) -> str:
        from redline.report.trial.sentences import headline

        return f"<redline comparison: {headline(self.trial, self.numbers)}>"
