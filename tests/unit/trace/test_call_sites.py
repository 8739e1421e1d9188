"""Stacks that operators carry, as profilers of 2021 wrote them: which function is the script's."""

from pathlib import Path

import numpy as np
import pytest

from redline.ledger.rank.host_activity import sites_of
from redline.timeline.timeline import NONE
from redline.trace.call_sites import site_in
from tests.support.events import document, launch, op, read_one, row_of, span

PACKAGES = "/home/u/env/lib/python3.7/site-packages/"
INSIDE_TORCH = f"{PACKAGES}torch/nn/functional.py(1169): dropout"
OF_A_PACKAGE = f"{PACKAGES}torchvision/models/resnet.py(230): forward"
OF_THE_SCRIPT = "/home/u/job/train.py(54): step"


@pytest.mark.parametrize(
    ("stack", "site"),
    [
        (f"{INSIDE_TORCH};train.py(54): <module>", "train.py(54): <module>"),
        (f"{INSIDE_TORCH};{OF_THE_SCRIPT};/home/u/job/train.py(9): main", OF_THE_SCRIPT),
        (f"{INSIDE_TORCH};{OF_A_PACKAGE};{OF_THE_SCRIPT}", OF_A_PACKAGE),
        (f"{INSIDE_TORCH};/home/u/env/lib/python3.7/threading.py(890): _bootstrap", ""),
        ("<built-in method add>;threading.py(890): run", ""),
        ("", ""),
    ],
)
def test_the_innermost_function_that_is_neither_torchs_nor_pythons(stack: str, site: str) -> None:
    assert site_in(stack) == site


def test_what_an_operator_calls_is_called_from_its_site(tmp_path: Path) -> None:
    stack = f"{INSIDE_TORCH};train.py(54): <module>"
    events = [
        span("cpu_op", "aten::outer", 0, 20, args={"Call stack": stack}),
        op("aten::inner", 5, 10),
        launch(8, 1),
        op("aten::alone", 30, 5),
        span("cpu_op", "aten::broken", 40, 5, args={"Call stack": 3}),
    ]
    timeline = read_one(document(events), tmp_path)
    rows = np.array([row_of(timeline, f"aten::{name}") for name in ("outer", "inner", "alone", "broken")] + [NONE])
    assert [timeline.text(int(site)) for site in sites_of(timeline, rows)] == ["train.py(54): <module>"] * 2 + [""] * 3
