"""Pages of the site are those of GitHub, but for links to the source, anchors of translations and ends of lines."""

from scripts import docs_site


def test_links_out_of_the_documentation_lead_to_the_repository() -> None:
    text = "[a](../../examples/a.py) [b](../design.md#x) [c](plan.md) [d](../../src/data/README.md#sources)"
    source = f"{docs_site.urls()['Source']}/blob/main"
    assert docs_site.with_links_to_source(text, "tutorials/own-job.md") == (
        f"[a]({source}/examples/a.py) [b](../design.md#x) [c](plan.md) [d]({source}/src/data/README.md#sources)"
    )


def test_a_translation_answers_to_english_anchors() -> None:
    english = "# Title\n\n## Where a step ends\n\n```sh\n# no heading\n```\n\n## `math`\n"
    chinese = "# 标题\n\n## step 在哪里结束\n\n```sh\n# no heading\n```\n\n## `math`\n"
    assert docs_site.with_english_anchors(chinese, english) == chinese.replace(
        "## step", '<a id="where-a-step-ends"></a>\n\n## step'
    )


def test_a_translation_that_lags_behind_answers_to_all_of_them() -> None:
    english = "# Title\n\n## One\n\n## New\n"
    assert docs_site.with_english_anchors("# 标题\n\n## 一\n", english) == (
        '# 标题\n\n<a id="one"></a>\n\n## 一\n\n<a id="new"></a>\n'
    )


def test_lines_of_chinese_are_joined_without_a_space() -> None:
    assert docs_site.with_chinese_lines_joined("耗时很长，\n与 kernel\n无关。\n\n另外，\n`host`") == (
        "耗时很长，与 kernel\n无关。\n\n另外，`host`"
    )


def test_findings_and_levers_are_in_the_navigation_without_being_listed() -> None:
    nav = docs_site.whole_nav([{"Findings": [{"All findings": "reference/findings.md"}]}, {"Levers": ["levers.md"]}])
    assert nav == docs_site.whole_nav(nav)
    sections = nav[0]["Findings"]
    assert sections[0] == {"All findings": "reference/findings.md"}
    assert "findings/RL-D01.md" in sections[1]["Loading data"]
    assert nav[1]["Levers"][:3] == ["levers.md", "levers/switch.md", "levers/fused.md"]
    assert nav[1]["Levers"][-1] == "levers/env.md"
