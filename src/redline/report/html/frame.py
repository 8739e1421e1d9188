"""Pages: documents as one file for a browser, with style, scripts, their data, and a policy that allows no others."""

import base64
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from redline import __version__
from redline.report.document import Chart, PageDocument, ReportTable, TemplateDrawing
from redline.report.html.policy import embedded_json, policy_of, script_of, shown
from redline.report.html.prose import prose
from redline.report.html.tables import sorted_table, table_text
from redline.report.language import _, spoken
from redline.report.markdown import capitalised
from redline.report.terminal import glued, visible_lines

_FOLDER = Path(__file__).parent
_SIGN = re.compile(r"(?<=\w)([._#/])(?=[^\W\d])")  # between words of a name
_CODE = re.compile(r"`([^`\n]+)`")


def page_text(page: PageDocument) -> str:
    blocks = [block for section in page.sections for block in section.blocks]
    shown_tables = [block for block in blocks if isinstance(block, ReportTable) and block.rows]
    names = {id(table): table.name or f"table{number}" for number, table in enumerate(shown_tables)}
    values = frame(
        page.title,
        charts={block.name: block.data for block in blocks if isinstance(block, Chart)},
        tables={names[id(table)]: asdict(sorted_table(table)) for table in shown_tables},
        words={**table_text(), **page.words},
        drawers=page.drawers,
    )
    return template("page.html.j2").render(**values, page=page, drawn=drawn, kind_of=_kind_of, names=names, id=id)


def drawn(drawing: TemplateDrawing) -> Markup:
    return Markup(template(drawing.template).render(**drawing.values, _=_))  # a template of ours, which escapes


def _kind_of(block: object) -> str:
    return type(block).__name__


def frame(
    title: str,
    *,
    charts: Mapping[str, Mapping[str, Any]],
    tables: Mapping[str, Mapping[str, Any]],
    words: Mapping[str, str],
    drawers: Sequence[str] = (),
) -> dict[str, Any]:
    """The values of `base.html.j2`. `drawers` are files of scripts with further kinds of charts."""
    scripts = [script_of(_file(name)) for name in (*drawers, "report.js")]
    return {
        "_": _,
        "title": title,
        "language": {"zh": "zh-CN"}.get(spoken(), spoken()),
        "version": __version__,
        "policy": policy_of([_plotly(), *scripts]),
        "plotly": _packed_plotly(),
        "scripts": scripts,
        "style": Markup(_file("style.css")),  # a file that we ship
        "data": embedded_json({"charts": charts, "tables": tables, "words": words}),
        "charts": charts,
        "tables": tables,
    }


@cache
def template(name: str) -> Template:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["glued"] = glued
    environment.filters["coded"] = coded
    environment.filters["breakable"] = breakable
    environment.globals["capitalised"] = capitalised
    environment.filters["prose"] = prose
    return environment.get_template(name)


def breakable(text: str) -> Markup:
    """A name may break after the signs in it, and not inside of a word."""
    return Markup(_SIGN.sub(r"\1<wbr>", str(escape(visible_lines(glued(text))))))  # escaped before


def coded(text: str) -> Markup:
    """A sentence whose `names` are shown as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(visible_lines(glued(text))))))  # escaped before


@cache
def _plotly() -> Markup:
    return script_of(get_plotlyjs())


@cache
def _packed_plotly() -> Markup:
    """For report.js to unpack. zlib and not gzip, whose header has a date: the same input gives the same page."""
    return Markup(base64.b64encode(zlib.compress(_plotly().encode(), 9)).decode())  # base64 holds no markup


def _file(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
