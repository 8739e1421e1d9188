"""Names that moved: goes away when nobody uses them here."""

from redline.report.words_accounts import meaning
from redline.report.words_facts import mfu_line, no_mfu_line
from redline.report.words_losses import NAME_LIMIT, doing, late_line, site

__all__ = ["NAME_LIMIT", "doing", "late_line", "meaning", "mfu_line", "no_mfu_line", "site"]
