"""What is known of a run that has the log of a serving engine and no trace."""

from dataclasses import dataclass
from pathlib import Path

from redline.report.data import enveloped, json_text
from redline.report.diagnose.md import request_blocks
from redline.report.language import _, speaking
from redline.report.serving.json import record_of
from redline.report.serving.serving_tables import text_blocks, verdict_text
from redline.report.terminal import as_text, labelled
from redline.serving.diagnose_serving import ServingDiagnosis

KIND = "requests"
FORMS = ("text", "md", "json")
_LABEL_WIDTH = 10


@dataclass(frozen=True, kw_only=True)
class RequestsResult:
    """Of one run."""

    folder: Path
    serving: ServingDiagnosis

    def rendered(self, form: str) -> str:
        """One of FORMS."""
        if form == "json":
            with speaking("en"):
                return json_text(enveloped(KIND, 1, "redline diagnose", {"serving": record_of(self.serving)}))
        if form == "md":
            return as_text([[f"## {self.folder.name}"], [verdict_text(self.serving)], *request_blocks(self.serving)])
        verdict = list(labelled(_("verdict"), verdict_text(self.serving), _LABEL_WIDTH))
        unseen = list(
            labelled(_("not seen"), _("No step was captured, so what the model does is not known."), _LABEL_WIDTH)
        )
        return as_text([verdict, *text_blocks(self.serving), unseen])
