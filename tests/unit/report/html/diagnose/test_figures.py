"""The data of the charts: what is drawn adds up to what was measured, however many steps or ranks there are."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from redline.ledger.accounts import ACCOUNTS
from redline.ledger.job.combine import Diagnosis, combine
from redline.ledger.rank.digest import Digest, digest_of
from redline.report.diagnose import account_messages
from redline.report.html import frame
from redline.report.html.diagnose import figures
from redline.report.html.scale import scaled, time_unit
from redline.verbs.diagnose import diagnose
from tests.support.events import Event, collective, document, kernel, launch, op, read_one, region
from tests.support.machines import PRODUCT, machine_with
from tests.support.traces.synthetic import JobSpec, Straggler, write_job


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    folder = tmp_path_factory.mktemp("job")
    write_job(JobSpec(ranks=4, steps=3, layers=2, stragglers=(Straggler(rank=2, extra_us=1500),)), folder)
    return diagnose([folder]).diagnosis


def steps(count: int, dur: float = 100) -> list[Event]:
    """Each with a kernel of half its length."""
    return [
        event
        for number in range(count)
        for event in (
            region(f"ProfilerStep#{number}", number * dur, dur),
            launch(number * dur, number + 1, dur=1),
            kernel("gemm", number * dur + 2, dur / 2, correlation=number + 1),
        )
    ]


def digest(events: list[Event], folder: Path, rank: int = 0) -> Digest:
    return digest_of(read_one(document(events, rank=rank, world_size=8), folder), None)


# --- units ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("longest", "unit"), [(0, "ns"), (900, "ns"), (1e3, "us"), (2.5e6, "ms"), (9e9, "s")])
def test_the_unit_shows_the_longest_as_at_least_one(longest: float, unit: str) -> None:
    assert time_unit(longest)[0] == unit


def test_values_have_five_digits() -> None:
    assert scaled([1_234_567.0], 1e6) == [1.2346]


# --- steps ------------------------------------------------------------------------------------------------------------


def test_stacks_of_a_bar_add_up_to_the_step(job: Diagnosis) -> None:
    figure = figures.steps_figure(job)
    assert figure["labels"] == ["0", "1", "2"]
    assert figure["unit"] == "ms"
    mean_ns = np.mean([rank.ledger.end_ns - rank.ledger.start_ns for rank in job.ranks], axis=0)
    drawn = np.sum([stack["values"] for stack in figure["stacks"]], axis=0)
    assert drawn == pytest.approx(mean_ns / 1e6, rel=1e-3)
    assert len(figure["longest"]) == 3


def test_many_steps_become_fewer_bars(tmp_path: Path) -> None:
    figure = figures.steps_figure(combine([digest(steps(1000), tmp_path)]))
    assert len(figure["labels"]) <= figures.MOST_BARS
    assert figure["steps_per_bar"] == 5
    assert figure["labels"][0] == "0-4"
    assert {round(sum(stack["values"][0] for stack in figure["stacks"]), 3)} == {100.0}
    assert figure["longest"] == []


# --- ranks ------------------------------------------------------------------------------------------------------------


def test_columns_of_ranks_add_up_to_their_steps(job: Diagnosis) -> None:
    figure = figures.ranks_figure(job)
    assert figure["labels"] == ["0", "1", "2", "3"]
    step_ns = sum(job.per_step.values())
    of_rank = [100 * float(rank.ledger.steps.sum()) / len(rank.ledger.steps) / step_ns for rank in job.ranks]
    assert np.sum([stack["values"] for stack in figure["percent"]], axis=0) == pytest.approx(of_rank, abs=0.2)
    assert int(np.argmax(figure["caused"])) == 2
    assert "rank 2 was last" in figure["caused_texts"][2]


def test_many_ranks_become_fewer_columns(job: Diagnosis) -> None:
    many = combine([replace(job.ranks[0], origin=replace(job.ranks[0].origin, rank=rank)) for rank in range(300)])
    figure = figures.ranks_figure(many)
    assert len(figure["labels"]) <= figures.MOST_COLUMNS
    assert (figure["ranks_per_column"], figure["labels"][0], figure["labels"][-1]) == (3, "0-2", "297-299")


def test_nobody_is_late_without_exchanges(tmp_path: Path) -> None:
    figure = figures.ranks_figure(combine([digest(steps(2), tmp_path, rank) for rank in range(2)]))
    assert (figure["caused"], figure["caused_texts"]) == ([], [])


# --- roofline ---------------------------------------------------------------------------------------------------------


def product(folder: Path, math_ns: float, memory_ns: float) -> Diagnosis:
    """One product that took 1,000 ns, on a machine that needs these times for it."""
    events = [
        region("ProfilerStep#1", 0, 10),
        op("aten::mm", 0, 3, **PRODUCT),
        launch(0, 1),
        kernel("sgemm", 3, 1, correlation=1),
    ]
    return combine([digest_of(read_one(document(events), folder), machine_with(math_ns, memory_ns))])


@pytest.mark.parametrize(
    ("math_ns", "memory_ns", "group"),
    [(800, 100, "math"), (100, 800, "memory"), (100, 100, "kernel-loss"), (2000, 100, "other")],
)
def test_operators_are_grouped_by_what_limits_them(
    tmp_path: Path, math_ns: float, memory_ns: float, group: str
) -> None:
    figure = figures.roofline_figure(product(tmp_path, math_ns, memory_ns))
    assert figure is not None
    (point,) = figure["points"]
    assert point["group"] == group
    (peak,) = figure["peaks"]
    assert point["y"] / peak["value"] == pytest.approx(math_ns / 1000, rel=1e-3)
    assert point["y"] / (point["x"] * figure["bytes_per_s"]) == pytest.approx(memory_ns / 1000, rel=1e-3)


def test_operators_without_arithmetic_are_said_to_be_elsewhere(tmp_path: Path) -> None:
    events = [
        region("ProfilerStep#1", 0, 20),
        op("aten::mm", 0, 3, **PRODUCT),
        launch(0, 1),
        kernel("sgemm", 3, 1, correlation=1),
        op("aten::add_", 8, 3, **PRODUCT),
        launch(8, 2),
        kernel("add", 11, 3, correlation=2),
    ]
    figure = figures.roofline_figure(combine([digest_of(read_one(document(events), tmp_path), machine_with(50, 500))]))
    assert figure is not None
    assert figure["left_out"].startswith("75.0 % of the rated time is in operators without counted FLOPs")


def test_without_a_machine_there_is_no_roofline(job: Diagnosis, tmp_path: Path) -> None:
    assert figures.roofline_figure(combine([digest(steps(2), tmp_path)])) is None


# --- collectives ------------------------------------------------------------------------------------------------------


def exchanged(folder: Path, device: str = "") -> Diagnosis:
    devices = [{"id": 0, "name": device, "totalGlobalMem": 80 * 1024**3}] if device else []
    for rank in range(2):
        events = [region("ProfilerStep#1", 0, 300), kernel("gemm", 0, 50), collective(100, 100)]
        path = folder / f"rank{rank}.json"
        path.write_bytes(document(events, rank=rank, world_size=2, deviceProperties=devices))
    return diagnose([folder]).diagnosis


def test_collectives_have_their_size_and_bus_bandwidth(tmp_path: Path) -> None:
    figure = figures.collectives_figure(exchanged(tmp_path))
    assert figure is not None
    (point,) = figure["points"]
    assert (point["x"], point["group"]) == (4096.0, "all_reduce")
    assert point["y"] == pytest.approx(4096 / 100e-6)
    assert point["text"].startswith("all_reduce of 4.10 kB over 2 ranks\n")
    assert figure["links"] == []


def test_the_links_of_a_known_machine_are_drawn(tmp_path: Path) -> None:
    figure = figures.collectives_figure(exchanged(tmp_path, "NVIDIA H100 80GB HBM3"))
    assert figure is not None
    assert [link["name"].split()[0] for link in figure["links"]] == ["NVLink4", "network"]
    assert figure["links"][0]["value"] == 450e9


def test_partners_that_are_not_there_make_hollow_points(tmp_path: Path) -> None:
    events = [region("ProfilerStep#1", 0, 300), kernel("gemm", 0, 50), collective(100, 100)]
    figure = figures.collectives_figure(combine([digest(events, tmp_path)]))
    assert figure is not None
    assert figure["points"][0]["hollow"]
    assert "waiting not known" in figure["points"][0]["text"]


def test_without_exchanges_there_is_no_chart_of_them(tmp_path: Path) -> None:
    assert figures.collectives_figure(combine([digest(steps(2), tmp_path)])) is None


def test_every_account_has_a_colour() -> None:
    style = (Path(frame.__file__).with_name("style.css")).read_text()
    for account in ACCOUNTS:
        assert f"--a-{account_messages.colour(account)}:" in style
