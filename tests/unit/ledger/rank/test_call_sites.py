"""Which time samples of the stack stand for, and which line of the user's program they name."""

import numpy as np
import pytest

from redline.ledger.rank.call_sites import NearestSites, call_sites, frame_of, site_and_call, weights_ns
from redline.timeline.host_evidence import HostEvidence, StackSamples
from redline.timeline.intervals import Intervals
from redline.timeline.timeline import NONE

MAIN, WORK = ("train.py:10 main",), ("json/__init__.py:231 dumps", "train.py:20 work.<listcomp>", "train.py:11 main")
MS = 1_000_000


def evidence(*samples: tuple[float, float, int]) -> HostEvidence:
    """Of samples that were due, delayed (both in ms) and had a stack: 0 for MAIN, 1 for WORK."""
    due, delay, stack = zip(*samples, strict=True)
    return HostEvidence(
        samples=StackSamples(
            time_ns=np.array([round(ms * MS) for ms in due], np.int64),
            delay_ns=np.array([round(ms * MS) for ms in delay], np.int64),
            stack=np.array(stack, np.int32),
        ),
        sample_rate_hz=100,
        stacks=(MAIN, WORK),
    )


def time(start_ms: float, end_ms: float) -> Intervals:
    return Intervals(np.array([round(start_ms * MS)], np.int64), np.array([round(end_ms * MS)], np.int64))


def test_a_sample_stands_for_the_time_since_the_one_before() -> None:
    sampled = evidence((10, 0, 0), (20, 0, 1), (25, 10, 1))
    assert weights_ns(sampled, time(0, 100)).tolist() == [10 * MS, 10 * MS, 15 * MS]


def test_a_long_hold_of_the_interpreter_lock_counts_in_full() -> None:
    """One sample alone says of a call that held it for 200 ms."""
    sampled = evidence((10, 0, 0), (20, 200, 1), (230, 0, 0))
    sites = call_sites(sampled, time(0, 1000))
    assert [(site.site, site.time_ns // MS) for site in sites] == [
        ("work (train.py:20)", 210),
        ("main (train.py:10)", 20),
    ]


def test_what_is_read_long_after_the_time_tells_nothing_of_it() -> None:
    sampled = evidence((10, 3, 1))
    assert weights_ns(sampled, time(5, 10.5)).tolist() == [0]
    assert weights_ns(sampled, time(5, 12.9)).tolist() == [10 * MS + round(2.9 * MS)]
    assert weights_ns(sampled, time(5, 12.9), late_ns=0).tolist() == [0]


def test_the_site_is_the_innermost_frame_of_the_user_with_what_it_calls() -> None:
    frame, calls = site_and_call(WORK)
    assert frame is not None
    assert (frame.site, calls) == ("work (train.py:20)", "json.dumps")


@pytest.mark.parametrize(
    ("text", "theirs"),
    [
        ("torch/nn/modules/module.py:1789 Module._call_impl", False),
        ("json/encoder.py:200 encode", False),
        ("threading.py:100 wait", False),
        ("<frozen importlib._bootstrap>:241 _call_with_frames_removed", False),
        ("redline/capture/worker/watch.py:10 stepped", False),
        ("/opt/venv/lib/python3.11/site-packages/torch/_ops.py:3 call", False),
        ("my folder/train.py:10 main", True),
        ("/home/me/train.py:10 main", True),
        ("transformers/trainer.py:10 Trainer.train", True),
        ("rubbish", True),
    ],
)
def test_code_of_torch_and_python_is_not_the_users(text: str, theirs: bool) -> None:
    assert frame_of(text).is_theirs is theirs


def test_a_file_may_have_a_space_in_its_name() -> None:
    assert frame_of("my folder/train.py:10 main").site == "main (my folder/train.py:10)"


def test_the_nearest_sample_tells_the_site_at_any_time() -> None:
    sites = NearestSites(evidence((10, 0, 0), (20, 0, 1)))
    at = sites.at(np.array([8, 14, 16, 500], np.int64) * MS, np.array([9, 15, 17, 501], np.int64) * MS)
    assert [sites.texts[place] if place != NONE else "" for place in at.tolist()] == [
        "main (train.py:10)",
        "main (train.py:10)",
        "work (train.py:20)",
        "",
    ]
    assert sites.borders_ns().tolist() == [15 * MS]


def test_without_samples_nothing_is_said() -> None:
    assert call_sites(HostEvidence(), time(0, 10)) == ()
    nothing = NearestSites(HostEvidence())
    assert nothing.at(np.array([1], np.int64), np.array([2], np.int64)).tolist() == [NONE]
