"""RL-H10: compiled code is broken into many graphs, with Python between them."""

from tests.support.events import document, op
from tests.support.rules.host import compiled
from tests.support.rules.matching import claimed_ns, found, launched, matched, step


def test_h10_claims_the_idle_time_between_the_graphs_of_a_broken_function() -> None:
    events = [step(0, 0, 1000), *compiled(390)]
    for number, at in enumerate((30, 310, 500)):
        events += launched("triton", at + 3, 30, number + 1, at=at)
    data = document(events)
    # outside the graphs: 10 to 20, 60 to 300 and 340 to 400 us
    assert claimed_ns(data, "RL-H10") == 310_000
    assert found(data)["RL-H10"].evidence[0].values["breaks"] == 1


def test_h10_leaves_functions_alone_that_were_compiled_apart() -> None:
    events = [step(0, 0, 1000), *compiled(90)]
    for number, at in enumerate((30, 310, 500)):
        events += launched("triton", at + 3, 30, number + 1, at=at)
    assert "RL-H10" not in matched(document(events))


def test_h10_claims_what_entering_and_leaving_each_graph_takes_on_a_cpu() -> None:
    events = [step(0, 0, 1000), *compiled(390), op("aten::mm", 30, 10), op("aten::mm", 45, 10), op("aten::mm", 310, 30)]
    # outside the graphs as above; 20 to 30, 55 to 60 and 300 to 310 us are in graphs, before or after all operators
    assert claimed_ns(document(events), "RL-H10") == 310_000 + 25_000
