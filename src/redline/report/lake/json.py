"""An answer of the lake for programs; docs/reference/lake.md describes every field."""

from redline.artifacts import Envelope
from redline.report.json_text import json_text
from redline.report.lake.lake_results import LakeAskResult

KIND = "lake-answer"
SCHEMA_VERSION = 1


def render(result: LakeAskResult) -> str:
    answer = result.answer
    names = [column.name for column in answer.columns]
    envelope = Envelope(
        kind=KIND, schema_version=SCHEMA_VERSION, made_by="redline lake ask", synthetic=result.synthetic
    )
    return json_text(
        {
            **envelope.to_dict(),
            "question": result.question,
            "sql": result.sql,
            "digests": result.digests,
            "jobs": result.jobs,
            "first_day": result.first_day,
            "last_day": result.last_day,
            "price": result.price,
            "columns": names,
            "rows": [list(row) for row in answer.rows],
            "facts": dict(answer.facts),
            "cut": answer.cut,
        }
    )
