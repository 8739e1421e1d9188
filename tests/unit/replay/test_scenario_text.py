"""Scenarios as text: what is written is read as the same changes; what cannot be read is refused where it stands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.errors import UsageError
from redline.replay.changes import Target, TimeChange
from redline.replay.scenario_text import MOST_SCENARIOS, parse_scenario, parse_scenarios, scenario_text
from redline.trace.schema import KERNEL_CLASSES, kernel_class

_NAMED = (Target.KERNELS, Target.COLLECTIVES, Target.COPIES)
_WHOLE = (Target.HOST, Target.LOADER, Target.SYNC, Target.NETWORK)
_names = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=40)
_factors = st.one_of(
    st.just(0.0),
    st.floats(1e-6, 1e6),
    st.integers(1, 1000).map(lambda number: 1 / number),
    st.integers(1, 1000).map(float),
)
_ranks = st.lists(st.integers(0, 40), max_size=6).map(lambda ranks: tuple(sorted(set(ranks))))
_changes = st.one_of(
    st.builds(
        TimeChange,
        target=st.sampled_from(_NAMED),
        pattern=st.one_of(st.just(""), _names),
        factor=_factors,
        ranks=_ranks,
    ),
    st.builds(TimeChange, target=st.just(Target.OPERATOR), pattern=_names, factor=_factors, ranks=_ranks),
    st.builds(TimeChange, target=st.sampled_from(_WHOLE), factor=_factors, ranks=_ranks),
    st.builds(TimeChange, target=st.just(Target.LOADER), workers=st.integers(1, 1024), ranks=_ranks),
    _ranks.filter(bool).map(lambda ranks: TimeChange(target=Target.RANK, ranks=ranks, factor=1.0, like_others=True)),
)


@given(st.lists(_changes, min_size=1, max_size=5))
def test_what_is_written_is_read_as_the_same(changes: list[TimeChange]) -> None:
    text = scenario_text(changes)
    scenario = parse_scenario(text)

    assert scenario.changes == tuple(changes)
    assert scenario.name == text


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        scenario = parse_scenario(text)
    except UsageError as error:
        message = str(error)
    else:
        message = ""
        assert parse_scenario(scenario.name) == scenario

    assert not message or "at character" in message


@pytest.mark.parametrize(
    ("text", "written", "change"),
    [
        ("kernels(gemm)/2", "kernels(gemm)/2", TimeChange(target=Target.KERNELS, pattern="gemm", factor=0.5)),
        ("Collectives = 0", "collectives=0", TimeChange(target=Target.COLLECTIVES, factor=0.0)),
        ("network*2", "network*2", TimeChange(target=Target.NETWORK, factor=0.5)),
        ("network/4", "network/4", TimeChange(target=Target.NETWORK, factor=4.0)),
        ("host*0.5", "host/2", TimeChange(target=Target.HOST, factor=0.5)),
        ("loader  workers = 4", "loader workers=4", TimeChange(target=Target.LOADER, workers=4)),
        ("kernels*1.25", "kernels*1.25", TimeChange(target=Target.KERNELS, factor=1.25)),
        ("remove aten::copy_", "remove aten::copy_", TimeChange(target=Target.OPERATOR, pattern="aten::copy_")),
        (
            "operator(aten::copy_)=0 on rank 3",
            "operator(aten::copy_)=0 on rank 3",
            TimeChange(target=Target.OPERATOR, pattern="aten::copy_", ranks=(3,)),
        ),
        (
            'kernels("void f<int>(int, int)")=0',
            'kernels("void f<int>(int, int)")=0',
            TimeChange(target=Target.KERNELS, pattern="void f<int>(int, int)"),
        ),
        (
            "loader=0 on ranks 0-3 7",
            "loader=0 on ranks 0-3 7",
            TimeChange(target=Target.LOADER, ranks=(0, 1, 2, 3, 7)),
        ),
        (
            "rank 7 like the others",
            "rank 7 like the others",
            TimeChange(target=Target.RANK, ranks=(7,), factor=1.0, like_others=True),
        ),
    ],
)
def test_examples(text: str, written: str, change: TimeChange) -> None:
    assert parse_scenario(text).changes == (change,)
    assert parse_scenario(text).name == written


def test_changes_that_are_made_together() -> None:
    scenario = parse_scenario("loader=0 , kernels(attention)/1.5,sync=0")

    assert scenario.name == "loader=0, kernels(attention)/1.5, sync=0"
    assert scenario.changes == (
        TimeChange(target=Target.LOADER),
        TimeChange(target=Target.KERNELS, pattern="attention", factor=1 / 1.5),
        TimeChange(target=Target.SYNC),
    )


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        ("", 1, "there is nothing to change"),
        ("kernel/2", 1, "there is no 'kernel'; did you mean 'kernels'?"),
        ("loader=0, synk=0", 11, "there is no 'synk'; did you mean 'sync'?"),
        (
            "gpu/2",
            1,
            "There are: kernels, collectives, network, copies, host, loader, sync, operator, start, rank, remove",
        ),
        ("loader", 7, "what of loader?"),
        ("loader workers", 15, "write how many there are to be, such as 'loader workers=4'"),
        ("loader workers*2", 15, "write how many there are to be"),
        ("loader workers=0", 16, "workers are 1 to 1024"),
        ("host/", 6, "a number goes here"),
        ("host/0", 6, "to have it gone, write '=0'"),
        ("host=2", 5, "only 0 can be set"),
        ("host(x)/2", 5, "host has no kinds to choose from"),
        ("kernels()/2", 9, "classes are: attention, convolution, gemm"),
        ("kernels(gemm/2", 15, "the parenthesis is not closed"),
        ('kernels("gemm)/2', 9, "the quotes are not closed"),
        ('kernels("")/2', 9, "write a part of their names"),
        ("operator/2", 9, "name the operator in parentheses"),
        ("remove", 7, "name an operator, such as 'remove aten::copy_'"),
        ("host/2 loader=0", 8, "a comma goes between changes"),
        ("host/2,", 8, "there is nothing to change"),
        ("host/2 on 3", 11, "write 'on rank 7' or 'on ranks 0-3'"),
        ("host/2 on rank x", 16, "a number of a rank goes here"),
        ("host/2 on ranks 5-3", 17, "a range of ranks goes upwards: 3-5"),
        ("host/2 on rank 5000000", 16, "no job has 5,000,001 ranks"),
        ("rank 7", 7, "write 'rank 7 like the others'"),
        ("rank 7/2", 7, "write 'rank 7 like the others'"),
        (",".join(["sync=0"] * 33), 225, "a scenario has at most 32 changes"),
    ],
)
def test_what_cannot_be_read_is_refused_where_it_stands(text: str, place: int, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_scenario(text)

    assert f"at character {place}: " in str(refused.value)
    assert why in str(refused.value)


def test_scenarios_are_read_once_each() -> None:
    assert [scenario.name for scenario in parse_scenarios(["host/2", "sync=0", "host*0.5"])] == ["host/2", "sync=0"]


def test_too_many_scenarios_are_refused() -> None:
    with pytest.raises(UsageError, match="65 scenarios at once; at most 64"):
        parse_scenarios([f"host*{number}" for number in range(1, MOST_SCENARIOS + 2)])


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64", "gemm"),
        ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNN", "gemm"),
        ("aten::addmm", "gemm"),
        ("Cijk_Alik_Bljk_BBS_BH_MT128x128x64", "gemm"),
        ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128>>", "attention"),
        ("fmha_cutlassF_f16_aligned_64x64_rf_sm80", "attention"),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32", "convolution"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>", "elementwise"),
        ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<...FusedAdam>", "optimizer"),
        ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>", "normalization"),
        ("void (anonymous namespace)::softmax_warp_forward<float>", "softmax"),
        ("my_kernel", "other"),
    ],
)
def test_classes_of_kernels(name: str, known: str) -> None:
    assert kernel_class(name) == known
    assert known in KERNEL_CLASSES
