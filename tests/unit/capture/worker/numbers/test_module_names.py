"""Names of modules and parameters stay the same, whatever wraps them."""

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

from redline.capture.worker.numbers.module_names import ModuleNames, named_modules, unwrapped


def made() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU()))


def compiled(module: nn.Module) -> nn.Module:
    made = torch.compile(module, backend="eager")
    assert isinstance(made, nn.Module)
    return made


def names(model: nn.Module) -> dict[str, str]:
    return {name: type(module).__name__ for name, module in named_modules(model)}


def test_wrappers_do_not_show_in_names() -> None:
    plain = made()
    wrapped = made()
    wrapped[1] = checkpoint_wrapper(compiled(wrapped[1]))
    assert names(nn.DataParallel(wrapped)) == names(plain)


def test_a_module_that_is_called_module_keeps_its_name() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = nn.Linear(2, 2)

    assert set(names(Own())) == {"", "module"}


def test_what_is_wrapped_is_found() -> None:
    model = made()
    assert unwrapped(nn.DataParallel(compiled(model))) is model


def test_the_first_module_with_parameters_has_no_prefix() -> None:
    known = ModuleNames()
    loss, model, other, third = nn.MSELoss(), made(), nn.Linear(2, 2), nn.Linear(2, 2)
    assert [known.add_root(module) for module in (loss, model, other, third)] == ["MSELoss", "", "Linear", "Linear#2"]
    assert known.add_root(nn.DataParallel(model)) == ""
    inner = model.get_submodule("1.0")
    assert known.of_module(inner, "") == "1.0"
    assert known.of_parameter(inner.weight) == ("1.0.weight", id(inner))
    assert known.of_parameter(other.bias) == ("Linear.bias", id(other))
    assert known.of_parameter(torch.ones(1)) is None


def test_a_module_that_is_in_no_other_is_named_after_who_calls_it() -> None:
    known = ModuleNames()
    known.add_root(made())
    assert known.of_module(nn.ReLU(), "1") == "1:ReLU"


def test_parameters_that_are_put_in_the_place_of_others_are_found() -> None:
    known = ModuleNames()
    model = made()
    known.add_root(model)
    new = model[0].weight = nn.Parameter(torch.ones(2, 2))
    assert known.of_parameter(new) is None
    known.refresh()
    assert known.of_parameter(new) == ("0.weight", id(model[0]))
