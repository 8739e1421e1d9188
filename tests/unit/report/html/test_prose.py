"""Markdown of finding pages as HTML: what pages use is shown as it is meant, and raw HTML stays text."""

import pytest

from redline.report.html.prose import prose


def test_what_pages_use() -> None:
    html = prose("One `a < b`.\n\n- **bold**\n- <https://example.org/a?b=c&d>\n\n```python\nx = '<b>'\n```\n")
    assert "<p>One <code>a &lt; b</code>.</p>" in html
    assert "<li><strong>bold</strong></li>" in html
    assert '<a href="https://example.org/a?b=c&amp;d">' in html
    assert "<pre><code class=\"language-python\">x = '&lt;b&gt;'\n</code></pre>" in html


@pytest.mark.parametrize(
    "markdown",
    [
        "<script>alert(1)</script>",
        "text <img src=x onerror=alert(1)> text",
        "[a](javascript:alert(1))",
        "<javascript:alert(1)>",
        "![a](https://example.org/pixel.png)",
    ],
)
def test_raw_html_scripts_and_pictures_stay_text(markdown: str) -> None:
    html = prose(markdown)
    for tag in ("<script", "<img", 'href="javascript'):
        assert tag not in html


def test_links_to_other_documents_lead_to_findings_of_the_report_or_nowhere() -> None:
    text = "See [RL-H01](RL-H01.md), [RL-H02](RL-H02.zh-CN.md), [the ledger](../explanation/ledger.md)."
    assert prose(text, ["RL-H01"]) == '<p>See <a href="#RL-H01">RL-H01</a>, RL-H02, the ledger.</p>\n'
