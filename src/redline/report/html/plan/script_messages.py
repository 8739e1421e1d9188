"""What the scripts of the pages of plans say."""

from redline.report.html.tables import table_text
from redline.report.language import _


def script_messages() -> dict[str, str]:
    return {
        **table_text(),
        "memory": _("memory at the peak, GB per GPU"),
        "best": _("the best"),
        "frontier": _("Pareto frontier of step time and memory"),
        "others": _("other good layouts"),
        "user_speed": _("tokens per second of one user"),
        "device_speed": _("tokens per second and GPU"),
        "measured": _("measured"),
        "predicted": _("predicted"),
        "equal": _("as measured"),
        "within": _("within 25 %"),
    }
