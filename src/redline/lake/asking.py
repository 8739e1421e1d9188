"""Ask a lake one question, whoever writes to it meanwhile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from redline.errors import InputError, UsageError
from redline.lake.parts import LakePart, first_day, parts_of
from redline.lake.questions import QUESTIONS, AnswerColumn, Cell, LakeAnswer, LakeQuestion, late_nodes
from redline.lake.sandbox import Sandbox, sandbox

_TRIES = 10  # while others merge parts
_SIZE = "SELECT count(*), count(DISTINCT job), coalesce(bool_or(synthetic), false) FROM digests"


@dataclass(frozen=True, kw_only=True)
class AskedLake:
    """An answer, and what it was asked of."""

    answer: LakeAnswer
    sql: str
    digests: int
    jobs: int
    synthetic: bool  # any of it
    first_day: str
    last_day: str


def ask_here(
    lake: Path, question: str | None, sql: str | None, *, parameters: Mapping[str, Cell], days: int | None = None
) -> AskedLake:
    """Ask all days, or so many up to the newest of the lake; in this process, as the SQL is our own."""
    named = None if question is None else _named(question, parameters)
    for _ in range(_TRIES):
        parts = _parts_of_days(lake, days)
        try:
            return _asked(parts, named, sql or "", parameters)
        except FileNotFoundError:  # merged since it was listed: what is in it now is in another
            continue
    raise InputError(f"{lake} changes faster than it can be read; ask again when fewer jobs are added")


def _named(question: str, parameters: Mapping[str, Cell]) -> LakeQuestion:
    import difflib

    if question not in QUESTIONS:
        near = difflib.get_close_matches(question, QUESTIONS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(QUESTIONS)}"
        raise UsageError(f"lake ask: there is no question {question!r:.60}; {hint}")
    named = QUESTIONS[question]
    for name in named.needs:
        if parameters.get(name) is None:
            raise UsageError(f"lake ask: the question {question!r} needs `{name}=...`")
    return named


def _parts_of_days(lake: Path, days: int | None) -> Sequence[LakePart]:
    parts = parts_of(lake)
    if not parts:
        raise InputError(f"{lake}: no lake in this folder; add digests to it first: redline lake add")
    if days is None:
        return parts
    oldest = first_day(date.fromisoformat(parts[-1].day), days)
    return [part for part in parts if part.day >= oldest]


def _asked(
    parts: Sequence[LakePart], question: LakeQuestion | None, sql: str, parameters: Mapping[str, Cell]
) -> AskedLake:
    with sandbox(parts) as tables:
        ((digests, jobs, synthetic),) = tables.ask(_SIZE).rows
        answer = tables.ask(sql) if question is None else _answer(tables, question, parameters)
    return AskedLake(
        answer=answer,
        sql=sql if question is None else question.sql.strip(),
        digests=int(digests or 0),
        jobs=int(jobs or 0),
        synthetic=bool(synthetic),
        first_day=parts[0].day,
        last_day=parts[-1].day,
    )


def _answer(tables: Sandbox, question: LakeQuestion, parameters: Mapping[str, Cell]) -> LakeAnswer:
    if "job" in question.needs:
        _refuse_unknown_job(tables, str(parameters["job"]))
    answer = tables.ask(question.sql, {name: parameters[name] for name in question.takes})
    if question.name == "nodes":
        return late_nodes(answer, int(parameters["top"] or 0))
    return _without_hidden(answer, question.columns, has_price=parameters.get("price") is not None)


def _without_hidden(answer: LakeAnswer, columns: Sequence[AnswerColumn], *, has_price: bool) -> LakeAnswer:
    """The columns that are to be shown; money only where a price was given."""
    hidden = {"hidden"} if has_price else {"hidden", "money"}
    places = [place for place, column in enumerate(columns) if column.kind not in hidden]
    return replace(
        answer,
        columns=tuple(columns[place] for place in places),
        rows=tuple(tuple(row[place] for place in places) for row in answer.rows),
    )


def _refuse_unknown_job(tables: Sandbox, job: str) -> None:
    import difflib

    known = [str(name) for (name,) in tables.ask("SELECT DISTINCT job FROM digests ORDER BY job").rows]
    if job not in known:
        near = difflib.get_close_matches(job, known, n=1)
        hint = f"did you mean {near[0]!r:.100}?" if near else "`redline lake ask jobs` lists them"
        raise UsageError(f"lake ask: there is no job {job!r:.100} in this lake; {hint}")
