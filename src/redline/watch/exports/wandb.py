"""Windows as the steps of a W&B run; `WANDB_MODE=offline` keeps them in files."""

import hashlib
from typing import Any

from redline.watch.exports.window_metrics import ExportedWindow


class WandbRun:
    """The run begins with the first window. Its id follows from the name of the watched run, so that a watch that is
    started again goes on with it; W&B leaves out steps that it has."""

    def __init__(self, target: str) -> None:
        import wandb

        self._wandb: Any = wandb
        self._project = target
        self._run: Any = None

    def write(self, window: ExportedWindow) -> None:
        if self._run is None:
            self._run = self._wandb.init(
                project=self._project,
                name=window.run,
                id=hashlib.sha256(window.run.encode()).hexdigest()[:16],
                resume="allow",
                settings=self._wandb.Settings(silent=True, console="off"),
            )
        self._run.log(window.flat(), step=window.number)

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()
