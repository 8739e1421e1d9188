"""Translations have the values of their texts, and a text without one is shown in English.

What is not translated yet is no failure here: `python -m scripts.missing_translations` lists it before a release.
"""

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from redline.errors import UnknownHardwareError
from redline.hardware import catalogue as hardware
from redline.report import counted_nouns
from redline.report.diagnose.fact_messages import ANCHORS
from redline.report.diagnose.unseen_messages import NO_MACHINE
from redline.report.language import LANGUAGES, _, clauses, listed, sentences, speaking, spoken, translate_rendered
from redline.report.option_names import as_options
from redline.report.po_file import translations
from tests.support.command_line import ROOT

SOURCES = [*sorted((ROOT / "src/redline/report").rglob("*.py")), *sorted((ROOT / "src/redline/findings").rglob("*.py"))]
PLACE = re.compile(r"\{\w+(?::[^}]*)?\}")


@pytest.fixture(scope="module")
def update() -> ModuleType:
    """The script that collects the texts."""
    pytest.importorskip("babel")
    spec = importlib.util.spec_from_file_location("update_catalogue", ROOT / "scripts" / "update_catalogue.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- the files --------------------------------------------------------------------------------------------------------


def test_every_language_has_a_catalogue(update: ModuleType) -> None:
    assert [language for language, _path in update.languages()] == [folder for folder in LANGUAGES.values() if folder]


def test_no_translation_is_a_guess(update: ModuleType) -> None:
    for language, path in update.languages():
        assert [message.id for message in update.messages(update.read(path, language)) if message.fuzzy] == []


def test_what_is_missing_is_listed_before_a_release(update: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from scripts import missing_translations, update_catalogue

    template = update.extracted()
    template.add("A sentence that nobody has translated.")
    monkeypatch.setattr(update_catalogue, "extracted", lambda: template)
    assert "zh_CN: not translated: A sentence that nobody has translated." in missing_translations.missing_texts()


def test_translations_have_the_values_of_their_texts(update: ModuleType) -> None:
    for language, path in update.languages():
        for message in update.messages(update.read(path, language)):
            text = message.id if isinstance(message.id, str) else message.id[1]
            for translation in filter(None, [message.string] if isinstance(message.string, str) else message.string):
                assert sorted(PLACE.findall(translation)) == sorted(PLACE.findall(text)), text
                assert re.sub(r"\w", "", translation).count("\n") == text.count("\n"), text


def test_what_the_program_reads_is_what_people_edit(update: ModuleType) -> None:
    for language, path in update.languages():
        compiled = translations(path)
        for message in update.messages(update.read(path, language)):
            if isinstance(message.id, str):
                assert compiled.gettext(message.id) == (message.string or message.id)
            else:
                assert compiled.ngettext(message.id[0], message.id[1], 2) == message.string[0]


# --- the sources ------------------------------------------------------------------------------------------------------


def calls(tree: ast.AST, *names: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield node


def test_no_text_hides_from_those_who_collect_them() -> None:
    """Inside an f-string, or put together, a text is not found, and a translation is never shown."""
    for path in SOURCES:
        check_that_no_text_hides(path)


def check_that_no_text_hides(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for text in (node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)):
        assert not list(calls(text, "_", "ngettext", "marked", "Evidence", "says")), ast.unparse(text)
    for call in calls(tree, "Evidence", "says"):
        first = call.args[0] if call.args else call.keywords[0].value
        of_says = path.name == "rule.py" and ast.unparse(first) == "message"  # collected where `says` is called
        assert isinstance(first, ast.Constant) or of_says, ast.unparse(call)
    for call in calls(tree, "_", "ngettext", "marked"):
        assert not isinstance(call.args[0], ast.JoinedStr | ast.BinOp | ast.IfExp), ast.unparse(call)


# --- putting texts together -------------------------------------------------------------------------------------------


def test_texts_are_put_together_as_the_language_does_it() -> None:
    assert (sentences(["A.", "", "B."]), clauses(["a", "b"]), listed(["a", "b"])) == ("A. B.", "a; b", "a, b")
    with speaking("zh"):
        assert spoken() == "zh"
        assert (sentences(["A。", "B。"]), clauses(["a", "b"]), listed(["a", "b"])) == ("A。B。", "a；b", "a、b")
        assert counted_nouns.ranks(1) == "1 个 rank"
    assert spoken() == "en"
    assert counted_nouns.ranks(1) == "1 rank"
    assert counted_nouns.ranks(1200) == "1,200 ranks"


@pytest.mark.parametrize(
    "anchor",
    [
        "optimizer steps (Optimizer.step#Adam.step)",
        "data-loader rounds",
        "steps of the serving engine",
        "a repeating sequence of 7 kernels",
        "a repeating sequence of 1 collective",
        "spans named like 'a.*b'",
        "no mark: the whole window is one",
        "no mark: nothing is named like 'x{y}'",
    ],
)
def test_what_lower_layers_say_is_told_in_the_language_that_is_spoken(anchor: str) -> None:
    assert translate_rendered(anchor, ANCHORS) == anchor
    with speaking("zh"):
        assert translate_rendered(anchor, ANCHORS) != anchor
    assert translate_rendered("ProfilerStep", ANCHORS) == "ProfilerStep"


@pytest.mark.parametrize(
    "device",
    [("", 0, 0), ("Unheard Of", 0, 0), ("NVIDIA H100 80GB HBM3", 10 << 30, 16), ("Ascend910B3", 0, 0)],
)
def test_why_a_device_has_no_figures_is_told_too(device: tuple[str, int, int]) -> None:
    with pytest.raises(UnknownHardwareError) as refusal:
        hardware.match(*device)
    for line in as_options(str(refusal.value)).splitlines():
        assert translate_rendered(line, NO_MACHINE) == line
        with speaking("zh"):
            assert translate_rendered(line, NO_MACHINE) != line


def test_a_text_without_a_translation_stays_as_it_is() -> None:
    with speaking("zh"):
        assert _("no such text") == "no such text"
