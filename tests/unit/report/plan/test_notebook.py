"""A plan in a notebook: what it says, without script, and nothing from a stranger's file is markup."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from redline.plan.job import JobCost
from redline.plan.train.search.plan import TrainingPlan
from redline.plan.train.workload import Transformer
from redline.report import notebook
from redline.report.language import speaking
from redline.report.plan.train.tables import COLOURS
from redline.report.plan.train.training_messages import HOLDERS, PARTS
from redline.verbs.plan_results import PlannedServing, PlannedTraining, ShownPlan, ValidatedPlans
from tests.support.made_plans import job, llama, nothing_fits, plan, serving_plan, validation


def _shown(result: ShownPlan) -> str:
    return result._repr_html_()


def _train(found: TrainingPlan, cost: JobCost | None = None) -> PlannedTraining:
    return PlannedTraining(plan=found, job=cost, sizes=(found,))


ALLOWED = {"div", "table", "tr", "td", "ul", "li", "details", "summary"}
PAYLOAD = "'><img src=x onerror=alert(1)>"


class Tags(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            _shown(_train(plan(), job())),
            ("best", "= step", "= peak", "the best layouts", "the whole job", "how far to"),
        ),
        (_shown(_train(nothing_fits())), ("verdict", "Nothing fits.")),
        (
            _shown(PlannedServing(plan=serving_plan())),
            ("best", "single forward pass", "Pareto frontier", "how far to trust this"),
        ),
        (
            _shown(ValidatedPlans(validation=validation())),
            ("Plans against published", "step time", "what fits", "SGLang"),
        ),
    ],
)
def test_it_says_the_first_things_without_script(text: str, parts: tuple[str, ...]) -> None:
    found = Tags(text)
    assert found.names <= ALLOWED
    assert found.attributes == {"style"}
    assert "url(" not in text
    for part in parts:
        assert part in " ".join(found.texts)


def test_every_part_of_a_step_and_of_memory_has_a_colour() -> None:
    assert {COLOURS[name.rpartition("_")[0]] for name in (*PARTS, *HOLDERS)} <= set(notebook._COLOURS)


def test_names_are_text_and_nothing_else() -> None:
    named = replace(llama(), name=PAYLOAD)
    for text in (
        _shown(_train(plan(workload=Transformer(named)))),
        _shown(PlannedServing(plan=serving_plan(model=named))),
    ):
        assert Tags(text).names <= ALLOWED
        assert any(PAYLOAD in one for one in Tags(text).texts)


def test_it_speaks_the_language_that_is_spoken() -> None:
    with speaking("zh"):
        assert "最佳" in _shown(_train(plan(), job()))


def test_one_line() -> None:
    assert repr(_train(plan())).startswith("<plan of Llama-3-8B on 64 H100-SXM5-80GB in bf16, estimated for meg")
    assert repr(_train(plan())).endswith("; step 1.875 s, 50.0 GB, MFU 44.5 %>")
    assert "nothing fits; smallest: one replica on one GPU" in repr(_train(nothing_fits()))
    assert repr(PlannedServing(plan=serving_plan())).startswith(
        "<plan of Llama-3-70B on H100-SXM5-80GB, served by SGLang: "
    )
    assert repr(ValidatedPlans(validation=validation())) == (
        "<plans against measurements: step time 5.0 % in the median of 1,712 runs, memory 6.0 % of 933>"
    )
