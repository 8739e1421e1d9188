"""What is known of a run that has the log of a serving engine and no trace."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redline.report.data import enveloped
from redline.report.document import Document, Heading, LabelledLines, Paragraph
from redline.report.language import _, speaking
from redline.report.serving.json import record_of
from redline.report.serving.serving_tables import request_blocks, verdict_text
from redline.report.shown_result import ShownResult
from redline.serving.diagnose_serving import ServingDiagnosis

KIND = "requests"
FORMS = ("text", "md", "json")


@dataclass(frozen=True, kw_only=True)
class RequestsResult(ShownResult):
    """Of one run."""

    folder: Path
    serving: ServingDiagnosis

    def document(self, *, verbose: bool = False) -> Document:
        unseen = _("No step was captured, so what the model does is not known.")
        return Document(
            blocks=(
                LabelledLines(lines=((_("verdict"), verdict_text(self.serving)),)),
                *request_blocks(self.serving),
                LabelledLines(lines=((_("not seen"), unseen),)),
            )
        )

    def comment(self, *, verbose: bool = False) -> Document:
        said = Heading(text=self.folder.name), Paragraph(text=verdict_text(self.serving))
        return Document(blocks=(*said, *request_blocks(self.serving)))

    def record(self) -> dict[str, Any]:
        with speaking("en"):
            return enveloped(KIND, 1, "redline diagnose", {"serving": record_of(self.serving)})
