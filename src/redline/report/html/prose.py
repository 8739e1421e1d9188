"""The Markdown of finding pages as HTML: paragraphs, lists, code, links. Raw HTML in it stays text."""

import re
from collections.abc import Collection
from functools import cache

from markdown_it import MarkdownIt
from markupsafe import Markup

_BESIDE = re.compile(r"\[(?P<text>[^\]]+)\]\((?!https?:)(?P<file>[^)]*)\)")  # a link to another document
_PAGE = re.compile(r"(?P<code>RL-\w+)(?:\.zh-CN)?\.md")


def prose(markdown: str, codes: Collection[str] = ()) -> Markup:
    """`codes` are the findings of the report: links to their pages lead to them, those to other documents nowhere."""

    def within(link: re.Match[str]) -> str:
        page = _PAGE.fullmatch(link["file"])
        return f"[{link['text']}](#{page['code']})" if page and page["code"] in codes else link["text"]

    return Markup(_renderer().render(_BESIDE.sub(within, markdown)))  # html is off: what is not Markdown was escaped


@cache
def _renderer() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).disable(["image", "heading", "lheading", "html_block"])
