"""What every page has, whatever it says: style, scripts and their data, the policy that allows no others."""

import base64
import re
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from redline import __version__
from redline.report.html.policy import embedded_json, policy_of, script_of, shown
from redline.report.language import _, spoken
from redline.report.terminal import glued, visible_lines

_FOLDER = Path(__file__).parent
_CODE = re.compile(r"`([^`\n]+)`")


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
    return environment.get_template(name)


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
