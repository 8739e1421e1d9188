"""In a job without an optimizer the steps are calls of its outermost module: which calls, and of which module."""

import copy
import functools
import inspect
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.optim import SGD, Optimizer  # noqa: E402

from redline.capture.shared_state import BY_CALLS, KIND, STEPS, SharedState  # noqa: E402
from redline.capture.worker.counting import calls as calls_module  # noqa: E402
from redline.capture.worker.counting import calls as module  # noqa: E402
from redline.capture.worker.counting.call_inputs import takes_timestep  # noqa: E402
from redline.capture.worker.counting.calls import ModuleCalls, TrainingThread  # noqa: E402
from redline.capture.worker.counting.steps import StepCounter  # noqa: E402


class Watched:
    """Calls with the steps that they end."""

    def __init__(self) -> None:
        shared = SharedState.make(1)
        self.slot = shared.claim(0)
        context = SimpleNamespace(shared=shared, number=0, slot=self.slot)
        self.steps = StepCounter(context, lambda *_: None, lambda: None)  # type: ignore[arg-type]
        self.calls = ModuleCalls(TrainingThread())
        self.has_optimizer = False

    def count(self) -> int:
        """At the end of the process."""
        self.steps.finish()
        return self.slot.words[STEPS]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    one = Watched()
    monkeypatch.setattr(module, "is_optimizer_made", lambda *_: one.has_optimizer)
    one.calls.look_for_steps(one.steps, lambda watch: watch())
    with torch.no_grad():
        yield one
    one.calls.stop()
    assert nn.Module._compiled_call_impl is None


def net() -> nn.Module:
    """With a module of its own class in it."""
    return nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 4)).eval()


def call(one: Callable[[Tensor], Tensor], times: int) -> None:
    for _ in range(times):
        one(torch.zeros(2, 4))


# --- which calls ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [4, 5, 100])
def test_each_call_of_the_model_is_a_step(watched: Watched, times: int) -> None:
    call(net(), times)
    assert watched.count() == times
    assert watched.slot.words[KIND] == BY_CALLS


@pytest.mark.parametrize("times", [5, 100])
def test_so_it_is_where_somebody_forgot_to_turn_gradients_off(watched: Watched, times: int) -> None:
    with torch.enable_grad():
        call(net(), times)
    assert watched.count() == times


def test_beside_an_optimizer_calls_with_gradients_may_be_parts_of_a_step(watched: Watched) -> None:
    """A training that ends before its first step has none."""
    watched.has_optimizer = True
    with torch.enable_grad():
        call(net(), 63)
    assert watched.count() == 0


def test_unless_there_are_too_many_of_them(watched: Watched) -> None:
    watched.has_optimizer = True
    with torch.enable_grad():
        call(net(), 100)
    assert watched.count() == 100


def test_validation_before_the_training_counts_until_the_optimizer_steps(watched: Watched) -> None:
    model = net()
    watched.has_optimizer = True
    call(model, 10)
    with torch.enable_grad():
        call(model, 30)
    assert watched.slot.words[STEPS] == 9  # the tenth goes on
    watched.calls.stop()
    call(model, 10)
    assert watched.slot.words[STEPS] == 9


def test_whether_there_ever_was_an_optimizer_is_known() -> None:
    class Own(SGD):
        pass

    class Derived(Own):
        pass

    class Unused(Optimizer):
        pass

    assert not module.is_optimizer_made(Own)
    Derived([torch.zeros(1)])
    assert module.is_optimizer_made(Own)
    assert module.is_optimizer_made(Optimizer)
    assert not module.is_optimizer_made(Unused)


def test_who_only_looks_at_a_module_does_not_call_it(watched: Watched) -> None:
    for _ in range(10):
        model = net()
        inspect.getmembers(model)
        copy.deepcopy(model)
        pickle.loads(pickle.dumps(model))
        assert model._compiled_call_impl is None
    assert watched.count() == 0


def scripted() -> Callable[[Tensor], Tensor]:
    model: Callable[[Tensor], Tensor] = torch.jit.script(net())
    return model


def traced() -> Callable[[Tensor], Tensor]:
    model: Callable[[Tensor], Tensor] = torch.jit.trace(net(), torch.zeros(2, 4))
    return model


def traced_by_fx() -> Callable[[Tensor], Tensor]:
    model: Callable[[Tensor], Tensor] = torch.fx.symbolic_trace(nn.Sequential(*(net() for _ in range(6))))
    return model


def compiled_in_place() -> Callable[[Tensor], Tensor]:
    """It reads twice."""
    model = net()
    model.compile(backend="eager")
    return model


def replicated() -> Callable[[Tensor], Tensor]:
    return nn.DataParallel(net())


@pytest.mark.parametrize("make", [scripted, traced, traced_by_fx, compiled_in_place, replicated])
def test_what_is_made_of_a_module_counts_and_making_it_does_not(
    watched: Watched, make: Callable[[], Callable[[Tensor], Tensor]]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated
        model = make()
    call(model, 30)
    assert watched.count() == 30


# --- of which module --------------------------------------------------------------------------------------------------


def test_of_two_models_of_a_class_one_counts(watched: Watched) -> None:
    encoder, decoder = net(), net()
    call(lambda inputs: decoder(encoder(inputs)), 40)
    assert watched.count() == 40


def test_the_one_that_is_called_most_often(watched: Watched) -> None:
    encoder, decoder = net(), net()
    for _ in range(4):
        call(encoder, 1)
        call(decoder, 16)
    assert watched.count() == 64


def test_of_an_ensemble_one_member_counts(watched: Watched) -> None:
    members = [net() for _ in range(10)]
    for _ in range(20):
        for member in members:
            call(member, 1)
    assert watched.count() == 20


@pytest.mark.parametrize("calls", [1, 2, 5])
def test_a_model_that_is_made_anew_for_each_batch(watched: Watched, calls: int) -> None:
    for _ in range(10):
        call(net(), calls)
    assert watched.count() == 10 * calls


def test_even_if_the_old_ones_stay_alive(watched: Watched) -> None:
    kept = [net() for _ in range(40)]
    for model in kept:
        call(model, 1)
    assert watched.count() == 40


def test_another_of_its_class_takes_over(watched: Watched) -> None:
    """It is noticed late, as the first one is still there."""
    first, second = net(), net()
    call(first, 10)
    call(second, 100)
    assert watched.count() == 110 - 15


def test_what_is_inside_does_not_take_over(watched: Watched) -> None:
    model = nn.Sequential(*(net() for _ in range(20)))
    call(model, 30)
    assert watched.count() == 30


def test_no_module_is_kept_alive(watched: Watched) -> None:
    gone = []

    class Mourned(nn.Identity):
        def __del__(self) -> None:
            gone.append(1)

    call(Mourned(), 2)
    call(Mourned(), 10)
    assert gone == [1, 1]


def test_the_largest_module_is_known(watched: Watched) -> None:
    call(nn.Linear(4, 4), 2)
    call(net(), 4)
    assert watched.calls.largest() == "Sequential"


def test_what_waits_is_done_at_the_next_call(watched: Watched) -> None:
    done = []
    watched.calls.stop()
    watched.calls.once(lambda _: done.append(1))
    inspect.getmembers(net())
    assert done == []
    call(net(), 3)
    assert done == [1]


def test_a_module_that_refuses_a_length_is_the_outermost_one(watched: Watched) -> None:
    class Measured(nn.Sequential):
        def __len__(self) -> int:
            raise TypeError("no length")

    model = Measured(nn.Linear(4, 4))
    call(model, 8)
    assert watched.calls.outermost() is model


# --- denoising --------------------------------------------------------------------------------------------------------


class Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, sample: Tensor, timestep: Tensor, prompt: Tensor) -> Tensor:
        out: Tensor = self.layer(sample) * timestep + prompt
        return out


def denoise(denoiser: nn.Module, steps: int, prompts: list[Tensor]) -> None:
    """With guidance: as many calls in each step as there are prompts."""
    sample = torch.zeros(2, 4)
    for timestep in torch.linspace(1, 0, steps):
        sample = sum((denoiser(sample, timestep, prompt) for prompt in prompts), sample)


def test_two_calls_for_guidance_are_one_step(watched: Watched) -> None:
    """The first two calls count apart: that their prompts come again is not known yet."""
    denoise(Denoiser(), 20, [torch.zeros(2, 4), torch.ones(2, 4)])
    assert watched.count() == 21


def test_prompts_may_be_views_that_are_made_for_each_call(watched: Watched) -> None:
    model, prompts, sample = Denoiser(), torch.zeros(3, 2, 4), torch.zeros(2, 4)
    for timestep in torch.linspace(1, 0, 20):
        sample = sum((model(sample, timestep, prompts[n]) for n in range(3)), sample)
    assert watched.count() == 22


def test_a_tensor_that_is_written_into_is_another_input(watched: Watched) -> None:
    model, sample, prompt = Denoiser(), torch.zeros(2, 4), torch.zeros(2, 4)
    for timestep in torch.linspace(1, 0, 20):
        sample += model(sample, timestep, prompt)
    assert watched.count() == 20


def test_a_denoiser_with_one_call_for_both_prompts(watched: Watched) -> None:
    denoise(Denoiser(), 20, [torch.zeros(2, 4)])
    assert watched.count() == 20


class Decoder(nn.Module):
    """Takes what could be a timestep, so that only its inputs tell of steps."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, tokens: Tensor, t: Tensor) -> Tensor:
        out: Tensor = self.layer(tokens) + t
        return out


def test_tokens_that_share_their_source_are_steps_of_their_own(watched: Watched) -> None:
    model = Decoder()
    for _ in range(10):
        tokens, source = torch.zeros(2, 4), torch.ones(2, 4)
        for _ in range(3):
            tokens = model(tokens, source)
    assert watched.count() == 30


def test_the_same_batch_again_is_another_step(watched: Watched) -> None:
    model, tokens, source = Decoder(), torch.zeros(2, 4), torch.ones(2, 4)
    for _ in range(20):
        model(tokens, source)
    assert watched.count() == 20


def test_where_denoisers_are_imported_one_is_waited_for(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "diffusers", ModuleType("diffusers"))
    call(net(), 10)
    denoise(Denoiser(), 20, [torch.zeros(2, 4)])
    call(net(), 10)
    assert watched.count() == 20


def test_but_not_for_ever(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "diffusers", ModuleType("diffusers"))
    call(net(), 100)
    assert watched.count() == 100


def test_a_denoiser_is_known_behind_decorators_and_the_compiler() -> None:
    class Decorated(Denoiser):
        @functools.wraps(Denoiser.forward)
        def forward(self, *args: Tensor, **kwargs: Tensor) -> Tensor:  # type: ignore[override]
            return super().forward(*args, **kwargs)

    assert takes_timestep(Decorated())
    assert takes_timestep(torch.compile(Decorated(), backend="eager"))
    assert not takes_timestep(net())


# --- generate() compiles the model ------------------------------------------------------------------------------------


def test_tokens_of_a_compiled_model_are_steps(watched: Watched) -> None:
    """Its prompt calls the model, its tokens do not."""
    model = net()
    for _ in range(5):
        call(model, 1)
        for _ in range(8):
            watched.calls.token_ended(model)
    assert watched.count() == 40


def test_a_read_method_tells_of_compiled_models_alone() -> None:
    class Generates:
        def update(self) -> int:
            return 7

    told: list[object] = []
    Generates.update = calls_module._ReadAfterToken(Generates.update, told.append)  # type: ignore[method-assign, assignment]
    plain, compiled = Generates(), Generates()
    compiled._compiled_call = None  # type: ignore[attr-defined]
    assert [plain.update(), compiled.update(), Generates.update(plain)] == [7, 7, 7]
    assert told == [compiled]
