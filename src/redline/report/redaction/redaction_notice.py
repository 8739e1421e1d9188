"""What was taken out of a result, in one line that every output shows."""

from collections.abc import Sequence

from redline.report.language import _, ngettext
from redline.report.redaction.private import Private
from redline.report.redaction.redactor import Removed


def redacted_text(removed: Sequence[Removed]) -> str:
    """ "redacted: 2 hosts, 14 folders, 1 secret"."""
    parts = [f"{kind_removed.count:,} {_kind(kind_removed)}" for kind_removed in removed]
    return _("redacted: {what}").format(what=", ".join(parts) or _("nothing: no text looked private"))


def _kind(removed: Removed) -> str:
    count = removed.count
    return {
        Private.HOST: ngettext("host", "hosts", count),
        Private.USER: ngettext("user", "users", count),
        Private.FOLDER: ngettext("folder", "folders", count),
        Private.FILE: ngettext("name of a trace", "names of traces", count),
        Private.E_MAIL: ngettext("e-mail address", "e-mail addresses", count),
        Private.ADDRESS: ngettext("network address", "network addresses", count),
        Private.SECRET: ngettext("secret", "secrets", count),
    }[removed.kind]
