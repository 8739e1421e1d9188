"""One call of a tool: arguments checked, the answer as text within its bound, every failure in a line or two."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from redline.artifacts.masking import masked
from redline.errors import RedlineError
from redline.mcp.allowed_folders import AllowedFolders
from redline.mcp.bounded_answer import answer_text, escaped, shortened
from redline.mcp.tools import AGENT_TOOLS
from redline.report.language import speaking

_MOST_LINES, _MOST_LETTERS = 2, 500


@dataclass(frozen=True, kw_only=True)
class CallOutcome:
    """The text of an answer, or of a failure."""

    text: str
    failed: bool = False


def call_tool(name: str, arguments: Mapping[str, Any], folders: AllowedFolders) -> CallOutcome:
    """Whatever goes wrong is an outcome, not an exception."""
    tool = AGENT_TOOLS.get(name)
    if tool is None:
        return _failure(f"there is no tool {name!r:.60}; there are: {', '.join(AGENT_TOOLS)}")
    try:
        with speaking("en"):
            asked = msgspec.convert(arguments, tool.takes)
            return CallOutcome(text=answer_text(tool.answer(asked, folders)))
    except msgspec.ValidationError as error:
        return _failure(f"{name}: {error}")
    except RedlineError as error:
        return _failure(str(error))
    except Exception as error:  # noqa: BLE001 (a bug must not end the server, nor show its insides)
        return _failure(
            f"{name}: a bug in Redline ({type(error).__name__}); the command line tells more: redline {name}"
        )


def _failure(message: str) -> CallOutcome:
    """Messages may hold names of files: nothing hidden in them, no secret, and an end."""
    lines = [
        shortened(escaped(masked(line[:4_000])), _MOST_LETTERS) for line in message.strip().split("\n")[:_MOST_LINES]
    ]
    return CallOutcome(text="\n".join(lines), failed=True)
