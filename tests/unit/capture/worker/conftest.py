"""One process that has imported torch, for all jobs of these tests."""

from collections.abc import Iterator

import pytest

from tests.support.trial_jobs import TrialRunner, trial_runner


@pytest.fixture(scope="session")
def jobs() -> Iterator[TrialRunner]:
    with trial_runner() as runner:
        yield runner
