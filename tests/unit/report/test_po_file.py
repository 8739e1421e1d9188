"""What gettext makes of a .po file: plain texts, long and escaped ones, plurals, and texts without a translation."""

from pathlib import Path

from redline.report.po_file import translations

PO = r"""# A language.
msgid ""
msgstr ""
"Plural-Forms: nplurals=2; plural=n != 1;\n"
"Content-Type: text/plain; charset=utf-8\n"

#: src/one.py
msgid "step"
msgstr "步"

msgid ""
"a \"long\" text "
"of two lines\n"
msgstr ""
"\\ 长"
"文"

msgid "not yet"
msgstr ""

msgid "{count} rank"
msgid_plural "{count} ranks"
msgstr[0] "one"
msgstr[1] "many"

#~ msgid "gone"
#~ msgstr "no longer there"
"""


def test_texts_plurals_and_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "redline.po"
    path.write_text(PO, encoding="utf-8")
    found = translations(path)
    assert found.gettext("step") == "步"
    assert found.gettext('a "long" text of two lines\n') == "\\ 长文"
    assert (found.gettext("not yet"), found.gettext("gone")) == ("not yet", "gone")
    assert [found.ngettext("{count} rank", "{count} ranks", count) for count in (1, 2)] == ["one", "many"]
