"""The Markdown of finding pages as HTML: paragraphs, lists, code, links. Raw HTML in it stays text."""

from functools import cache

from markdown_it import MarkdownIt
from markupsafe import Markup


def prose(markdown: str) -> Markup:
    return Markup(_renderer().render(markdown))  # html is off: what is not Markdown was escaped


@cache
def _renderer() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).disable(["image", "heading", "lheading", "html_block"])
