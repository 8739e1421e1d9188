"""Sees to it that the parts of vLLM are watched once they are imported."""

from __future__ import annotations

from redline.capture.worker.after_import import AfterImport
from redline.capture.worker.engines.engine_log import EngineHooks, EngineLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from redline.capture.worker.engines.vllm_engine import VllmEngine
    from redline.capture.worker.engines.vllm_server import VllmServer


def watch_vllm(folder: str, hooks: EngineHooks) -> None:
    """Watch for vLLM: the process may have the engine, its front, both or neither.

    An engine takes minutes to start, and then waits for somebody to ask: a window by time alone would show nothing.
    """
    parts = _Parts(folder, hooks)

    def utils_loaded(module: ModuleType) -> None:
        hooks.no_timed_window()
        parts.engine().utils_loaded(module)

    watchers: dict[str, Callable[[ModuleType], None]] = {
        "vllm.v1.engine.core": lambda module: parts.engine().core_loaded(module),
        "vllm.v1.utils": utils_loaded,
        "vllm.v1.engine.output_processor": lambda module: parts.server().loaded(module),
    }
    AfterImport({name: _safe(watcher, hooks.safely) for name, watcher in watchers.items()})


def _safe(
    watcher: Callable[[ModuleType], None], safely: Callable[[Callable[[], None]], None]
) -> Callable[[ModuleType], None]:
    return lambda module: safely(lambda: watcher(module))


class _Parts:
    """Made when they are needed: most jobs have no engine."""

    def __init__(self, folder: str, hooks: EngineHooks) -> None:
        self._folder = folder
        self._hooks = hooks
        self._engine: VllmEngine | None = None
        self._server: VllmServer | None = None

    def engine(self) -> VllmEngine:
        from redline.capture.worker.engines.vllm_engine import VllmEngine

        self._engine = self._engine or VllmEngine(EngineLog(self._folder, "engine"), self._hooks)
        return self._engine

    def server(self) -> VllmServer:
        from redline.capture.worker.engines.vllm_server import VllmMetrics, VllmServer

        self._server = self._server or VllmServer(EngineLog(self._folder, "server", VllmMetrics().record))
        return self._server
