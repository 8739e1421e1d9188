"""Folders of a run are told by their names."""

import pytest

from redline.artifacts import restart_number, window_number


@pytest.mark.parametrize(("name", "number"), [("window-0", 0), ("window-12", 12)])
def test_a_window(name: str, number: int) -> None:
    assert (window_number(name), restart_number(name)) == (number, None)


@pytest.mark.parametrize(("name", "number"), [("restart-1", 1), ("restart-30", 30)])
def test_a_restart(name: str, number: int) -> None:
    assert (restart_number(name), window_number(name)) == (number, None)


@pytest.mark.parametrize("name", ["", "window-", "window-x", "my-window-1", "window-1.old", "window--1", "restart-1a"])
def test_any_other_folder(name: str) -> None:
    assert (window_number(name), restart_number(name)) == (None, None)
