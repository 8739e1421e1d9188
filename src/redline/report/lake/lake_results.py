"""What `redline lake` returns, and its reports take."""

from dataclasses import dataclass

from redline.lake.lake_answer import LakeAnswer
from redline.ranks.read_failures import Failure

FORMS = ("text", "json", "csv", "html")


@dataclass(frozen=True, kw_only=True)
class LakeAddResult:
    """What was added."""

    lake: str
    job: str
    windows: int
    digests: int
    failures: tuple[Failure, ...]


@dataclass(frozen=True, kw_only=True)
class LakePruneResult:
    """What was removed."""

    lake: str
    first_kept: str
    days: int
    digests: int
    merged: int  # parts that went into others


@dataclass(frozen=True, kw_only=True)
class LakeAskResult:
    """An answer, and what it was asked of."""

    lake: str
    question: str  # "" for SQL
    sql: str
    answer: LakeAnswer
    digests: int
    jobs: int
    synthetic: bool  # some of it was simulated rather than measured
    first_day: str
    last_day: str
    price: float | None
    job: str

    def rendered(self, form: str) -> str:
        """One of FORMS."""
        if form == "json":
            from redline.report.lake.json import render as render_json

            return render_json(self)
        if form == "csv":
            from redline.report.lake.csv import render as render_csv

            return render_csv(self)
        if form == "html":
            from redline.report.html.lake.page import render as render_page

            return render_page(self)
        from redline.report.lake.text import render_answer

        return render_answer(self)

    def text(self) -> str:
        return self.rendered("text")

    def __str__(self) -> str:
        return self.text()
