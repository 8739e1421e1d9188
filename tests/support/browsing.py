"""Pages in a real browser: what they did besides being shown, and names that try to break out of them."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Page

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# By family; short enough to be shown whole in the narrowest column of a table.
PAYLOADS = {
    "script tags": "<script>pwned=1</script>",
    "breaking out": "</script><script>pwned=2</script>",
    "breaking out of data": "-->]]><!--</ScRiPt ><script>pwned=2//",
    "event handlers": '"><img src=x onerror=pwned=3>',
    "attributes": "' autofocus onfocus='pwned=3' x='",
    "javascript: URLs": "<a href='javascript:pwned=4'>x</a>",
    "SVG": "<svg/onload=pwned=4>",
    "entities": "&lt;img src=x onerror=pwned=5&gt;",
    "templates": "{{7*7}}{%x%}${pwned=5}%{x}<b>bold</b>",
    "line separators": "a\u2028pwned=5\u2029//",
}


def chromium() -> str | None:
    return os.environ.get("REDLINE_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)


@dataclass
class Log:
    """All that a page did besides being shown."""

    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)


_RECORD = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => violations.push(event.violatedDirective));
"""


def until(page: Page, condition: str) -> None:
    """Wait for something in the page; the library's own way to wait evaluates text, which the page forbids."""
    for _ in range(200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {condition}")


@contextmanager
def opened(browser: Browser, path: Path, width: int = 1280, theme: str = "light") -> Iterator[tuple[Page, Log]]:
    log = Log()
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=theme,  # type: ignore[arg-type]
        permissions=["clipboard-read", "clipboard-write"],
    )
    page = context.new_page()
    page.on("request", lambda request: log.requests.append(request.url))
    page.on("console", lambda message: log.messages.append(message.text))
    page.on("pageerror", lambda error: log.messages.append(str(error)))
    page.on("dialog", lambda dialog: log.dialogs.append(dialog.message))
    page.add_init_script(_RECORD)
    page.goto(path.as_uri())
    until(page, "document.querySelectorAll('[data-chart]:not(:has(.main-svg))').length === 0")
    yield page, log
    context.close()


def check_page(page: Page, log: Log, path: Path, width: int, charts: set[str]) -> None:
    """All charts are drawn, every button works, and the page neither asks the network nor is wider than the window."""
    drawn = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('[data-chart]')].map((one) => [one.dataset.chart, "
        "one.querySelectorAll('.point').length]))"
    )
    assert set(drawn) == charts
    assert all(count > 0 for count in drawn.values()), drawn
    page.evaluate("document.querySelectorAll('details').forEach((folded) => folded.open = true)")
    for button in page.query_selector_all("th button, .more:not([hidden])"):
        button.click()
    page.click("#theme")
    assert log.requests == [path.as_uri()]
    assert log.messages == []
    assert page.evaluate("violations") == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
