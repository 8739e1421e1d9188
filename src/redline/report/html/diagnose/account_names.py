"""The accounts as the page knows them: a code for its style sheet and scripts, and a name for people."""

from redline.findings.match import COMPUTE
from redline.ledger.accounts import Account
from redline.report.diagnose import account_messages
from redline.report.language import _


def code(account: str) -> str:
    """As style.css names its colour: kernel-loss."""
    return str(account).replace(" ", "-")


def name(account: str) -> str:
    """Also of what findings claim without knowing which account of compute it is."""
    return _("compute") if account == COMPUTE else account_messages.name(Account(account))
