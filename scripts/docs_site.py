"""What mkdocs.yml leaves to code: findings and levers in the navigation, links to the source, anchors as on GitHub."""

import re
import tomllib
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

from redline.capture.lever_kinds import KINDS
from redline.report.explain import sections
from redline.report.language import _, speaking
from redline.trials.lever_pages import short_name

ROOT = Path(__file__).parents[1]
FINDINGS = "Findings"
LEVERS = "Levers"
CHINESE = "zh-CN"
TRANSLATED = f".{CHINESE}.md"
HOMES = ("index.md", f"index{TRANSLATED}")
_LINK = re.compile(r"(?<=\]\()(?P<path>(?:\.\./)+[^)\s#]+)(?P<anchor>#[^)\s]*)?(?=\))")
_CHINESE_LINE_END = re.compile(
    r"(?<=[\u4e00-\u9fff，。；：、）])\n(?=[\u4e00-\u9fff（])|(?<=[，。；：、）])\n(?=[A-Za-z0-9`\[])"
)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(?P<text>.*?) *$", re.MULTILINE)


def urls() -> dict[str, str]:
    """[project.urls], where addresses are written, and nowhere else."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {name: str(url) for name, url in project["urls"].items()}


def finding_sections() -> list[dict[str, list[str]]]:
    """Pages of findings by what limits the job, so that a new rule needs no line in mkdocs.yml."""
    return [{heading: [f"findings/{code}.md" for code in codes]} for heading, codes in sections().items()]


def whole_nav(nav: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The navigation of mkdocs.yml with the pages of findings and levers."""
    levers = [f"levers/{short_name(kind)}.md" for kind in KINDS]
    added: dict[str, list[Any]] = {FINDINGS: finding_sections(), LEVERS: levers}
    return [
        {name: [inner[0], *added[name]] if name in added else inner}
        for section in nav
        for name, inner in section.items()
    ]


def translate_sections(languages: list[Any]) -> None:
    """Headings of findings as the command line says them."""
    with speaking("zh"):
        names = {heading: _(heading) for heading in sections()}
    for language in languages:
        if language.locale == CHINESE:
            language.nav_translations = {**language.nav_translations, **names}


def github_anchor(heading: str, separator: str = "-") -> str:
    """The anchor that GitHub gives a heading, so that links hold there and on the site."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def headings_of(text: str) -> list[re.Match[str]]:
    fenced = [match.span() for match in _FENCED.finditer(text)]
    return [
        match for match in _HEADING.finditer(text) if not any(start <= match.start() < end for start, end in fenced)
    ]


def with_links_to_source(text: str, page: str) -> str:
    """Links out of docs lead to the repository; in a checkout and on GitHub they are relative."""

    def absolute(match: re.Match[str]) -> str:
        target = normpath(PurePosixPath("docs", page).parent / match["path"])
        is_page = target.startswith("docs/")
        return match[0] if is_page else f"{urls()['Source']}/blob/main/{target}{match['anchor'] or ''}"

    return _LINK.sub(absolute, text)


def with_english_anchors(text: str, english: str) -> str:
    """A translated page also answers to the anchors of its English one, which untranslated pages link to.

    Those of headings that it lacks, because it lags behind, lead to its end.
    """
    own, originals = headings_of(text)[1:], headings_of(english)[1:]  # nothing may stand before the title
    missing = [github_anchor(original["text"]) for original in originals[len(own) :]]
    for translated, original in reversed(list(zip(own, originals, strict=False))):
        anchor = github_anchor(original["text"])
        if anchor != github_anchor(translated["text"]):
            text = f'{text[: translated.start()]}<a id="{anchor}"></a>\n\n{text[translated.start() :]}'
    return text + "".join(f'\n<a id="{anchor}"></a>\n' for anchor in missing)


def with_chinese_lines_joined(text: str) -> str:
    """Chinese puts no space between words, and so none where a line of the source ends."""
    return _CHINESE_LINE_END.sub("", text)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    addresses = urls()
    config.site_url = addresses["Documentation"]
    # Not as repo_url: the theme would ask GitHub for the number of stars.
    config.extra["social"] = [{"icon": "fontawesome/brands/github", "link": addresses["Source"], "name": "GitHub"}]
    config.nav = whole_nav(config.nav or [])
    translate_sections(config.plugins["i18n"].config["languages"])
    config.mdx_configs["toc"]["slugify"] = github_anchor
    return config


def on_page_markdown(markdown: str, page: Page, **_others: object) -> str:
    source = page.file.src_uri
    if source in HOMES:
        page.meta["hide"] = ["navigation"]  # it would be empty
    if source.endswith(TRANSLATED):
        markdown = with_chinese_lines_joined(markdown)
        original = ROOT / "docs" / source.replace(TRANSLATED, ".md")
        if original.exists():
            markdown = with_english_anchors(markdown, original.read_text(encoding="utf-8"))
    return with_links_to_source(markdown, source)
