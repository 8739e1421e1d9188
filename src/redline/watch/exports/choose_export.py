"""From what the user asked for, such as openmetrics=FILE, to the export that does it."""

from collections.abc import Callable
from importlib import import_module
from typing import Protocol

from redline.errors import UsageError
from redline.watch.exports.window_metrics import ExportedWindow


class MetricsExport(Protocol):
    """Takes windows in order. Whatever it raises is said and tried again."""

    def write(self, window: ExportedWindow) -> None: ...

    def close(self) -> None: ...


_CLASSES = {  # of redline.watch.exports; what follows the = of each
    "openmetrics": ("OpenMetricsFile", "FILE"),
    "otlp": ("OtlpMetrics", "URL"),
    "wandb": ("WandbRun", "PROJECT"),
    "mlflow": ("MlflowRun", "URI"),
    "tensorboard": ("TensorBoardScalars", "FOLDER"),
}


def export_of(asked: str) -> MetricsExport:
    """Raises UsageError where the name is none, the target is missing, or a library is."""
    name, equals, target = asked.partition("=")
    if name not in _CLASSES:
        known = ", ".join(f"{known}={what}" for known, (_, what) in _CLASSES.items())
        raise UsageError(f"watch: there is no export {name!r}; there are: {known}")
    class_name, what = _CLASSES[name]
    if not equals or not target:
        raise UsageError(f"watch: export {name} needs a target: {name}={what}")
    module = import_module(f"redline.watch.exports.{name}")
    try:
        make: Callable[[str], MetricsExport] = getattr(module, class_name)
        return make(target)
    except ImportError as error:
        package = (error.name or name).partition(".")[0]
        raise UsageError(f"watch: export {name} needs {package}: pip install 'redline-perf[{name}]'") from error
