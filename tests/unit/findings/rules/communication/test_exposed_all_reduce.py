"""RL-N01: the all-reduces of DDP are not hidden behind the backward pass."""

from tests.support.events import kernel
from tests.support.rules.communication import alike, alone_ns, base, exchanged, forward, job, messages, node, values
from tests.support.rules.matching import found


def test_n01_claims_the_transfer_that_nothing_hides() -> None:
    first = exchanged(350, 100, 2, at=320, elements=1000)  # hidden
    last = exchanged(550, 200, 3, at=450, elements=2000)  # exposed from 600 on
    finding = found(*alike([*base(), *first, *last]))["RL-N01"]
    assert (finding.alone_ns, finding.bound_ns, finding.ranks) == (150_000, 150_000, 2)
    assert finding.accounts == {"transfer": 150_000}
    assert values(finding) == {
        "buckets": 2,
        "exposed_ns": 150_000,
        "step_ns": 1_000_000,
        "smallest_bytes": 4000,
        "largest_bytes": 8000,
        "last_share": 1.0,
    }


def test_n01_counts_what_is_flushed_after_the_last_node() -> None:
    assert alone_ns(alike([*base(), *exchanged(600, 100, 2, at=520)]), "RL-N01") == 100_000


def test_n01_leaves_waiting_to_others() -> None:
    """Rank 1 comes at 700: until then rank 0 waits, which is no transfer."""
    late = job(lambda rank: [*base(), *exchanged(700 if rank else 600, 100 if rank else 200, 2, at=450)])
    assert found(*late)["RL-N01"].bound_ns == 100_000
    assert alone_ns(late, "RL-N01") == 200_000  # fewer and larger buckets save the waiting in these too
    assert alone_ns(late, "RL-N13") == 100_000  # of rank 0 only, and the job gains all of it


def test_n01_hides_no_more_than_is_computed() -> None:
    """Of 350 us in a large all-reduce 200 us can hide behind the 200 us of compute."""
    events = [*base(computing_us=300), *exchanged(600, 350, 2, at=450, elements=8 << 20)]
    finding = found(*alike(events))["RL-N01"]
    assert finding.alone_ns == finding.bound_ns == 200_000
    assert values(finding)["left_ns"] == 150_000


def test_n01_leaves_passes_before_the_last_to_n02() -> None:
    passes = [forward(10, 40), node(55, 3), *exchanged(600, 100, 2, at=56, elements=8 << 20)]
    last = exchanged(700, 100, 3, at=450, elements=8 << 20)
    assert alone_ns(alike([*base(), *passes, *last]), "RL-N01") == 100_000
    assert alone_ns(alike([*base(), *passes, *last]), "RL-N02") == 100_000


def test_n01_says_of_a_rank_alone_that_waiting_may_be_in_it() -> None:
    together = alike([*base(), *exchanged(600, 100, 2, at=450)])
    assert "no other rank was recorded" not in messages(found(*together)["RL-N01"])
    alone = found(together[0])["RL-N01"]
    assert alone.alone_ns == 100_000
    assert values(alone)["untold_share"] == 1.0
    assert "no other rank was recorded" in messages(alone)


def test_n01_counts_what_is_exposed_and_of_unknown_kind() -> None:
    unlaunched = kernel("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", 750, 40, correlation=77)
    finding = found(*alike([*base(), *exchanged(600, 100, 2, at=450), unlaunched]))["RL-N01"]
    assert values(finding)["unknown_ns"] == 40_000
    assert finding.alone_ns == 140_000
    assert "of unknown kind" in messages(finding)


def test_n01_is_silent_where_computation_hides_the_traffic() -> None:
    assert "RL-N01" not in found(*alike([*base(computing_us=850), *exchanged(600, 200, 2, at=450)]))


def test_n01_is_silent_below_a_twentieth_of_the_step() -> None:
    assert "RL-N01" not in found(*alike([*base(), *exchanged(600, 49, 2, at=450)]))


def test_n01_takes_no_activations_for_gradients() -> None:
    """Tensor parallelism reduces activations forward and their gradients, of the same size, backward."""
    events = [*base(), *exchanged(150, 10, 2, at=70), *exchanged(600, 200, 3, at=450)]
    assert not {"RL-N01", "RL-N05"} & set(found(*alike(events)))


def test_n01_takes_no_other_scheme_for_ddp() -> None:
    scattered = exchanged(600, 100, 2, at=450, name="_reduce_scatter_base")
    reduced = exchanged(700, 100, 3, at=460, elements=7)
    assert "RL-N01" not in found(*alike([*base(), *scattered, *reduced]))
