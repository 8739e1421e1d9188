"""Tokens of transformers' `generate` whose model runs compiled: compiled code calls no module that could be seen.

`generate` compiles the model by itself where its cache is static and the device is a GPU. After each token it reads
one of its own methods, which becomes a descriptor that notes the time: no frame of ours is under the script's code.
"""

from __future__ import annotations

from redline.capture.worker.after_import import AfterImport
from redline.capture.worker.exception_origin import NO_ROOM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    import torch

_MODULE, _CLASS = "transformers.generation.utils", "GenerationMixin"
_READ_AFTER_EACH_TOKEN = "_update_model_kwargs_for_generation"
_COMPILED = "_compiled_call"  # of a model that `generate` has compiled


def watch_generation(token_ended: Callable[[torch.nn.Module], None], safely: Callable[[Any], None]) -> None:
    """Tell of each token of a compiled model, with the model; of all others nothing is told."""

    def loaded(module: ModuleType) -> None:
        kind = getattr(module, _CLASS, None)
        method = vars(kind).get(_READ_AFTER_EACH_TOKEN) if kind is not None else None
        if callable(method):
            setattr(kind, _READ_AFTER_EACH_TOKEN, _ReadAfterToken(method, token_ended))

    AfterImport({_MODULE: lambda module: safely(lambda: loaded(module))})


class _ReadAfterToken:
    """A method that tells when it is looked up on a model, and is otherwise what it was."""

    def __init__(self, method: Any, token_ended: Callable[[torch.nn.Module], None]) -> None:
        self._method = method
        self._token_ended = token_ended

    def __get__(self, model: Any, kind: type | None = None) -> object:
        try:
            if model is not None and _COMPILED in model.__dict__:
                self._token_ended(model)
        except NO_ROOM:
            pass
        return self._method.__get__(model, kind)
