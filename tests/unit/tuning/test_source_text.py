"""Arguments that are put into, replaced in, and taken out of calls, however they are written."""

import ast
from pathlib import Path

import pytest

from redline.errors import InputError
from redline.tuning.seen_files import ArgumentChange, edits_of_call
from redline.tuning.source_text import SourceText

ORDER = ("dataset", "batch_size", "shuffle", "num_workers")


def _changed(folder: Path, text: str, given: str = "", **values: str | None) -> str:
    path = folder / "job.py"
    path.write_bytes(text.encode())
    source = SourceText(path)
    call = next(node for node in ast.walk(source.tree) if isinstance(node, ast.Call))
    names = {*given.split(), *(keyword.arg for keyword in call.keywords if keyword.arg)}
    changes = [
        ArgumentChange(call=call, name=name, value=value, order=ORDER, given=frozenset(names))
        for name, value in values.items()
    ]
    after = source.edited(edits_of_call(source, changes)).decode()
    ast.parse(after.encode())
    return after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f()", "f(a=1)"),
        ("f(x)", "f(x, a=1)"),
        ("f(x,)", "f(x, a=1,)"),
        ("f((x))", "f((x), a=1)"),
        ("f(x, **more)", "f(x, **more, a=1)"),
        ("f(y for y in x)", "f((y for y in x), a=1)"),
        ("(f)(x)", "(f)(x, a=1)"),
        ("f(x)[0](y)", "f(x)[0](y, a=1)"),
        ("f(größe, 'é')  # ü", "f(größe, 'é', a=1)  # ü"),
        ("f(\n    x\n)", "f(\n    x, a=1\n)"),
        ("f(\n    x,  # why, so\n)", "f(\n    x,  # why, so\n    a=1,\n)"),
        ("f(x,\n  y,\n)", "f(x,\n  y,\n  a=1,\n)"),
        ("f(\r\n\tx,\r\n)", "f(\r\n\tx,\r\n\ta=1,\r\n)"),
        ("f('''\n''', # (\n)", "f('''\n''', # (\na=1,\n)"),
        ("\ufefff(x)", "\ufefff(x, a=1)"),
    ],
)
def test_an_argument_is_added(tmp_path: Path, before: str, after: str) -> None:
    assert _changed(tmp_path, before, a="1") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(x, b=1)", "f(x)"),
        ("f(x, b=1, c=2)", "f(x, c=2)"),
        ("f(b=1)", "f()"),
        ("f(b=1, c=2)", "f(c=2)"),
        ("f(b=1,)", "f()"),
        ("f(x, b=(1), )", "f(x, )"),
        ("f(\n    x,\n    b=1,  # slow\n    c=2,\n)", "f(\n    x,\n    c=2,\n)"),
        ("f(\r\n\tx,\r\n\tb=1,\r\n)", "f(\r\n\tx,\r\n)"),
        ("f(\n    x,\n    b=1\n)", "f(\n    x\n)"),
    ],
)
def test_an_argument_is_left_out(tmp_path: Path, before: str, after: str) -> None:
    assert _changed(tmp_path, before, b=None) == after


def test_a_new_argument_takes_the_place_of_one_that_is_left_out(tmp_path: Path) -> None:
    assert _changed(tmp_path, "f(x, b=1, c=2)", a="1", b=None) == "f(x, a=1, c=2)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(x, num_workers=a + 1)", "f(x, num_workers=2)"),
        ("f(x, 8, False, 0)", "f(x, 8, False, 2)"),
        ("f(x, num_workers=\n(0))", "f(x, num_workers=\n(2))"),
        ("f(x, num_workers=0)  # num_workers=0", "f(x, num_workers=2)  # num_workers=0"),
    ],
)
def test_an_argument_is_replaced(tmp_path: Path, before: str, after: str) -> None:
    assert _changed(tmp_path, before, "num_workers", num_workers="2") == after


@pytest.mark.parametrize("call", ["f(x, **more)", "f(*all)", "f(*some, 8, False, 0)"])
def test_an_argument_that_the_text_does_not_show_is_refused(tmp_path: Path, call: str) -> None:
    with pytest.raises(InputError, match="num_workers is given there by"):
        _changed(tmp_path, call, "num_workers", num_workers="2")


def test_a_comment_is_not_lost_with_an_argument(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a comment stands before"):
        _changed(tmp_path, "f(x,  # why\n  b=1)", b=None)
