"""Which levers are tried: by findings, by the machine, and by what the user allows."""

from redline.capture.lever_kinds import KINDS
from redline.capture.levers import parse_lever
from redline.numerics import Numerics
from redline.tuning.candidates import Consent, TunedJob, candidates_of

PLAIN = TunedJob(shares={}, cores=4)


def names(job: TunedJob, consent: Consent | None = None, *, for_memory: bool = False) -> list[str]:
    return [candidate.name for candidate in candidates_of(job, consent or Consent(), for_memory=for_memory)]


def test_what_a_finding_suggests_comes_first_with_what_it_can_gain() -> None:
    found = candidates_of(TunedJob(shares={"RL-H09": 0.1, "RL-H07": 0.3}, cores=4), Consent())
    assert [(one.finding, one.share) for one in found[:2]] == [("RL-H07", 0.3)] * 2
    assert {one.name for one in found[:2]} == {"fused", "foreach"}


def test_workers_are_tried_where_the_job_waits_for_data_up_to_its_cores() -> None:
    assert not any(name.startswith("workers") for name in names(PLAIN))
    waiting = names(TunedJob(shares={}, loader_share=0.4, cores=4))
    assert waiting[:3] == ["workers=4", "workers=2", "workers=1"]
    assert "workers=2" not in names(TunedJob(shares={}, loader_share=0.4, cores=2, ranks=2))


def test_a_loader_that_is_hardly_waited_for_comes_after_what_usually_gains() -> None:
    much, little = (names(TunedJob(shares={}, loader_share=share, cores=4)) for share in (0.2, 0.02))
    assert much.index("workers=4") < much.index("malloc-keep")
    assert little.index("malloc-keep") < little.index("workers=4") < little.index("preload=jemalloc")


def test_options_of_ddp_are_tried_with_several_ranks() -> None:
    assert "bucket-view" not in names(PLAIN)
    assert "bucket-view" in names(TunedJob(shares={}, ranks=2, cores=4))


def test_what_costs_time_is_tried_for_memory_only() -> None:
    assert "checkpoint=blocks" not in names(PLAIN)
    assert "checkpoint=blocks" in names(PLAIN, for_memory=True)


def test_what_saves_memory_is_tried_before_what_findings_promise_in_time() -> None:
    slow = TunedJob(shares={"RL-H09": 0.5}, cores=2)
    assert names(slow)[0] == "gc-freeze"
    for_memory = names(slow, for_memory=True)
    assert for_memory.index("checkpoint=blocks") < for_memory.index("malloc-arenas=1") < for_memory.index("gc-freeze")


def test_other_semantics_are_tried_only_by_name() -> None:
    semantic = {kind.name for kind in KINDS.values() if kind.numerics is Numerics.SEMANTICS}
    assert not semantic & {name.partition("=")[0] for name in names(PLAIN)}
    assert names(PLAIN, Consent(semantics=("switch=fast",)))[0] == "switch=fast"
    assert names(PLAIN, Consent(tried=("env:A=1",)))[0] == "env:A=1"


def test_what_is_left_out_is_not_tried() -> None:
    assert "fused" in names(PLAIN)
    assert "fused" not in names(PLAIN, Consent(never=("fused",)))


def test_levers_that_must_hold_claim_no_lower_precision() -> None:
    autocast, fused = parse_lever("autocast"), parse_lever("fused")
    assert Consent(lower_precision=True).claim([autocast, fused]) is Numerics.LOWER_PRECISION
    assert Consent(tried=(str(autocast),)).claim([autocast]) is Numerics.REASSOCIATION
    assert Consent().claim([fused]) is Numerics.REASSOCIATION


def test_what_lingers_in_a_process_is_not_switched_inside_of_one() -> None:
    found = {one.name: one for one in candidates_of(PLAIN, Consent())}
    assert not found["compile=blocks"].is_switchable
    assert found["compile=blocks"].is_suggested
    assert found["gc-freeze"].is_switchable


def test_what_may_always_gain_comes_before_what_nothing_suggests_and_the_quickest_first() -> None:
    names = [one.lever.kind.name for one in candidates_of(PLAIN, Consent()) if not one.share]
    assert names[:2] == ["malloc-keep", "compile"]
