"""What is known of a run that has the log of a serving engine and no trace."""

from dataclasses import dataclass
from pathlib import Path

from redline.artifacts import Envelope
from redline.report.data import json_text
from redline.report.diagnose.md import request_blocks
from redline.report.language import _, speaking
from redline.report.serving.json import record_of
from redline.report.serving.serving_tables import verdict_text
from redline.report.serving.text import blocks
from redline.report.terminal import as_text, labelled
from redline.serving.diagnose_serving import ServingDiagnosis

KIND = "requests"
FORMS = ("text", "md", "json")
_SCHEMA_VERSION = 1
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
                envelope = Envelope(kind=KIND, schema_version=_SCHEMA_VERSION, made_by="redline diagnose")
                return json_text({**envelope.to_dict(), "serving": record_of(self.serving)})
        if form == "md":
            return as_text([[f"## {self.folder.name}"], [verdict_text(self.serving)], *request_blocks(self.serving)])
        verdict = list(labelled(_("verdict"), verdict_text(self.serving), _LABEL_WIDTH))
        unseen = list(
            labelled(_("not seen"), _("No step was captured, so what the model does is not known."), _LABEL_WIDTH)
        )
        return as_text([verdict, *blocks(self.serving), unseen])
