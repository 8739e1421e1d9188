"""The documentation site, opened from a disk without a network. REDLINE_SITE names one that is built already."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser

from tests.support.browsing import opened

ROOT = Path(__file__).parents[2]
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
NOT_FETCHED = {"canonical", "alternate", "prev", "next"}  # of links in a head


class Addresses(HTMLParser):
    """What a page loads, and where its links lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "a":
            self.links.append(values.get("href") or "")
        elif tag in FETCHED and values.get("rel") not in NOT_FETCHED:
            self.loaded.append(values.get(FETCHED[tag]) or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ready = os.environ.get("REDLINE_SITE")
    if ready:
        return Path(ready)
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Addresses]:
    return {page: Addresses(page.read_text()) for page in site.rglob("*.html") if page.name != "404.html"}


def linked(page: Path, links: list[str]) -> Iterator[Path]:
    for link in links:
        parts = urlsplit(link)
        if not parts.scheme and parts.path:
            yield (page.parent / unquote(parts.path)).resolve()


def test_no_page_loads_anything_from_a_network(site: Path, pages: dict[Path, Addresses]) -> None:
    remote = {(page.name, url) for page, found in pages.items() for url in found.loaded if "//" in url}
    assert remote == set()
    sheets = [sheet.read_text() for sheet in site.rglob("*.css")]
    assert sheets
    assert [url for sheet in sheets for url in re.findall(r"(?:url\(|@import )['\"]?(?:https?:)?//[^)]*", sheet)] == []


def test_links_lead_to_files(pages: dict[Path, Addresses]) -> None:
    """As they are opened from a disk, where a folder has no index."""
    lost = {(page.name, target) for page, found in pages.items() for target in linked(page, found.links)}
    assert {(name, str(target)) for name, target in lost if not target.is_file()} == set()


@pytest.mark.parametrize("home", ["index.html", "zh-CN/index.html"])
def test_every_page_is_two_clicks_away(site: Path, pages: dict[Path, Addresses], home: str) -> None:
    chinese = site / "zh-CN"
    start = (site / home).resolve()
    reached = {start}
    for _ in range(2):
        reached |= {target for page in reached if page in pages for target in linked(page, pages[page].links)}
    wanted = {page for page in pages if page.is_relative_to(chinese) == start.is_relative_to(chinese)}
    assert len(wanted) > 80
    assert wanted - reached == set()


@pytest.mark.parametrize(
    ("home", "word", "result"), [("index.html", "straggler", ""), ("zh-CN/index.html", "迟到", "zh-CN")]
)
def test_search_works_from_a_disk(browser: Browser, site: Path, home: str, word: str, result: str) -> None:
    with opened(browser, site / home) as (page, log):
        page.fill("input[name=query]", word)
        page.press("input[name=query]", "End")  # the page reads what was typed when a key goes up
        page.wait_for_selector(".md-search-result__link", state="attached", timeout=60_000)  # the index is built first
        hrefs = [str(link.get_attribute("href")) for link in page.query_selector_all(".md-search-result__link")]
        assert any(result in href for href in hrefs)
        assert [url for url in log.requests if not url.startswith(("file:", "data:", "blob:"))] == []
