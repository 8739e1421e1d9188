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


# --- the tests before a push: `pytest -n 2 -m quick` ------------------------------------------------------------------

UNIT = Path(__file__).parent / "unit"
QUICK = ("artifacts", "cli", "damage", "findings", "hardware", "ledger", "model", "roofline", "serving", "timeline")
# Files of these folders that take more than two seconds of a processor.
NOT_QUICK = {
    *("cli/test_compare.py", "cli/test_plan.py", "findings/rules/communication/test_pipeline_bubble.py"),
    *("findings/test_bounds.py", "findings/test_claims.py", "ledger/job/test_combine.py"),
    *("ledger/memory/test_byte_ledger.py", "ledger/memory/test_rank_memory.py", "ledger/memory/test_trace_memory.py"),
    *("ledger/rank/test_file_digests.py", "ledger/rank/test_digest_file.py", "ledger/rank/test_host_activity.py"),
    *("ledger/rank/test_idle.py", "ledger/rank/test_kernels.py", "ledger/rank/test_ledger.py"),
    *("ledger/rank/test_phases.py", "model/test_exact.py", "model/test_huggingface.py"),
}


def _is_quick(path: Path) -> bool:
    place = path.relative_to(UNIT) if path.is_relative_to(UNIT) else Path()
    return bool(place.parts) and place.parts[0] in QUICK and place.as_posix() not in NOT_QUICK


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The other files are not even imported."""
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if config.option.markexpr == "quick" and is_test and not _is_quick(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _is_quick(item.path) and item.get_closest_marker("slow") is None:
            item.add_marker("quick")


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
