"""The tool `explain`: the page of a finding or a lever, or a list of those that mention some words."""

from typing import Annotated, Any

import msgspec

from redline.capture.lever_kinds import KINDS
from redline.findings import pages
from redline.findings.pages import Page, codes, find_pages, page_of
from redline.mcp.allowed_folders import AllowedFolders
from redline.mcp.bounded_answer import BoundedAnswer, RowPage
from redline.mcp.tool import AgentTool, Offset, command_line
from redline.trials import lever_pages
from redline.trials.lever_pages import LeverPage, kind_meant, lever_page_of


class ExplainArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What to explain."""

    topic: Annotated[
        str,
        msgspec.Meta(
            max_length=100,
            description="a code such as RL-H01, a lever such as fused, or words such as data loader; empty lists all",
        ),
    ] = ""
    offset: Offset = 0


def answer(arguments: ExplainArguments, folders: AllowedFolders) -> BoundedAnswer:
    """Pages come with Redline: no folder is read."""
    topic = arguments.topic.strip()
    if not topic:
        listed = [
            *_titles(map(page_of, codes())),
            *({"lever": kind, "title": lever_page_of(kind).title} for kind in KINDS),
        ]
        return _list(listed, arguments)
    kind = kind_meant(topic)
    if kind is not None:
        lever = lever_page_of(kind)
        return _page({"lever": lever.name, "title": lever.title}, _sections(lever, lever_pages.SECTIONS), arguments)
    found = find_pages(topic)
    if len(found) > 1:
        return _list(_titles(found), arguments)
    page = found[0]
    return _page({"code": page.code, "title": page.title}, _sections(page, pages.SECTIONS), arguments)


def _titles(found: Any) -> list[dict[str, Any]]:
    return [{"code": page.code, "title": page.title} for page in found]


def _sections(page: Page | LeverPage, names: Any) -> list[dict[str, str]]:
    return [{"section": name, "text": getattr(page, name)} for name in names]


def _page(about: dict[str, str], sections: list[dict[str, str]], arguments: ExplainArguments) -> BoundedAnswer:
    name = next(iter(about.values()))
    return BoundedAnswer(
        facts={"tool": "explain", **about, "verify": command_line("explain", name.partition(":")[0])},
        pages={"sections": RowPage(rows=sections, offset=arguments.offset, ask={"topic": arguments.topic})},
    )


def _list(rows: list[dict[str, Any]], arguments: ExplainArguments) -> BoundedAnswer:
    words = arguments.topic.split()
    return BoundedAnswer(
        facts={"tool": "explain", "verify": command_line("explain", *words)},
        pages={"topics": RowPage(rows=rows, offset=arguments.offset, ask={"topic": arguments.topic})},
    )


TOOL = AgentTool(
    name="explain",
    title="Explain a finding or a lever",
    description=(
        "The page of a finding (such as RL-H01) or of a lever (such as fused): cause, smallest and thorough fix, how "
        "its bound is computed, what it does to the numerics, when to ignore it, how it can be fooled, sources. Use it "
        "before "
        "you propose a fix, and to check a finding against `ignore` and `fooled`. Words search the pages; no topic "
        "lists all."
    ),
    takes=ExplainArguments,
    answer=answer,
)
