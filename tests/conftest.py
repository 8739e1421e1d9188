"""Fixtures of all tests: a cache of their own, the folder of real traces, --update-golden. Imports: `tests.support`."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.support")

from tests.support.real_traces import REAL_TRACES, RealTraces  # noqa: E402 (rewritten, too)

settings.register_profile("landing", deadline=None, max_examples=30)  # a busy machine is no failure
settings.register_profile("sweep", deadline=None, max_examples=2000)
settings.load_profile("landing")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what was found into the golden files; then read the diff as carefully as code",
    )


# --- fixtures ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten rather than compared."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def cache_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("caches")


@pytest.fixture(autouse=True)
def cache_of_the_test(monkeypatch: pytest.MonkeyPatch, cache_folders: Path) -> Path:
    """No test reads or fills the user's cache, in this process or in one that it starts."""
    folder = Path(
        tempfile.mkdtemp(dir=cache_folders)
    )  # pytest would look at all folders of earlier tests for the next number
    monkeypatch.setenv("REDLINE_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session")
def traces() -> RealTraces:
    return REAL_TRACES


# --- events as Kineto writes them; times in microseconds --------------------------------------------------------------


# --- a product whose work is known, and machines that need a given time for it ----------------------------------------


# --- the command line -------------------------------------------------------------------------------------------------


# --- documents and what is read from them -----------------------------------------------------------------------------
