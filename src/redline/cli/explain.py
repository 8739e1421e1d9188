"""`redline explain` on the command line."""

from __future__ import annotations

from redline.cli.arguments import Speaking, language
from redline.cli.options import Verb, words
from redline.cli.output import for_stdout, show


class ExplainOptions(Speaking):
    """Explain findings: cause, fix and possible gain."""

    verb = "explain"
    example = "redline explain data loader"
    words: tuple[str, ...] = words(
        "CODE|LEVER|WORD",
        "a finding such as RL-H01 or h01, a lever such as fused, or words to search for, such as idle "
        "(default: list all)",
        nargs="*",
    )


def run(options: ExplainOptions) -> int:
    from redline.report.language import speaking

    with speaking(language(options)), for_stdout():
        if options.words:
            _tell_about(" ".join(options.words))
        else:
            show(_everything())
    return 0


def _everything() -> str:
    from redline.report.explain import render_all

    return render_all()


def _tell_about(text: str) -> None:
    from redline.findings.pages import find_pages
    from redline.report.explain import render_several
    from redline.report.language import spoken
    from redline.trials.lever_pages import kind_meant, lever_page_of

    kind = kind_meant(text)
    if kind is not None:
        _show_page(lever_page_of(kind, spoken()).text)
        return
    pages = find_pages(text, spoken())
    if len(pages) > 1:
        show(render_several(pages))
    else:
        _show_page(pages[0].text)


def _show_page(text: str) -> None:
    from redline.report.display import is_terminal

    if is_terminal():
        from redline.cli.paint import painted_page

        show(painted_page(text), is_safe=True)
    else:
        show(text)


VERB = Verb(ExplainOptions, run)
