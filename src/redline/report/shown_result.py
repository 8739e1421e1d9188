"""Results that show and save themselves, in every form that a user can ask for."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from redline.artifacts import write_atomic
from redline.errors import UsageError
from redline.storage import path_of

if TYPE_CHECKING:
    from redline.report.document import Document, PageDocument


class SavedResult:
    """What a verb returns, which is saved in the form that the name of a file says."""

    WHAT: ClassVar[str] = "a result"
    SAVED: ClassVar[dict[str, str]] = {".csv": "csv", ".html": "html", ".json": "json", ".md": "md", ".txt": "text"}

    def rendered(self, form: str) -> str:
        raise NotImplementedError

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """In the form that the end of the name says."""
        form = self.SAVED.get(path_of(path).suffix)
        if form is None:
            raise UsageError(f"{path}: {self.WHAT} is saved as {', '.join(self.SAVED)}; give the file such a name")
        text = self.rendered(form)
        with write_atomic(path_of(path), force=force) as file:
            file.write(text.encode(errors="backslashreplace"))


class ShownResult(SavedResult):
    """What a verb returns, for people and programs: from one document, one page and one record."""

    def document(self, *, verbose: bool = False) -> "Document":
        raise NotImplementedError

    def comment(self, *, verbose: bool = False) -> "Document":
        """For a pull request, as Markdown; all of the document unless it is said."""
        return self.document(verbose=verbose)

    def record(self) -> dict[str, Any]:
        """For programs."""
        raise NotImplementedError

    def page(self) -> "PageDocument":
        raise NotImplementedError

    def html(self) -> str:
        from redline.report.html.frame import page_text  # Jinja2 and Plotly, which only pages need

        return page_text(self.page())

    def csv(self) -> str:
        raise NotImplementedError

    def rendered(self, form: str, *, verbose: bool = False, unicode: bool = True) -> str:
        """As text, md, html, json or csv. Without `unicode`, text has only letters that every terminal has."""
        from redline.report.data import json_text
        from redline.report.markdown import markdown_of
        from redline.report.terminal import text_of

        if form == "json":
            return json_text(self.record())
        if form == "csv":
            return self.csv()
        if form == "html":
            return self.html()
        if form == "md":
            return markdown_of(self.comment(verbose=verbose))
        return text_of(self.document(verbose=verbose), unicode=unicode)

    def text(self) -> str:
        return self.rendered("text")
