"""Windows as scalars of TensorBoard, in an event file with their own times."""

from pathlib import Path
from typing import Any

from redline.watch.exports.window_metrics import ExportedWindow

_SUFFIX = ".redline-watch"


class TensorBoardScalars:
    """What an earlier watch wrote there is written anew, as all of it follows from the digests."""

    def __init__(self, target: str) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event: Any = Event
        self._summary: Any = Summary
        folder = Path(target)
        for path in folder.glob(f"events.out.tfevents.*{_SUFFIX}"):
            path.unlink()
        self._writer: Any = EventFileWriter(str(folder), filename_suffix=_SUFFIX)

    def write(self, window: ExportedWindow) -> None:
        values = [self._summary.Value(tag=tag, simple_value=value) for tag, value in window.flat().items()]
        event = self._event(wall_time=window.start_ns / 1e9, step=window.number, summary=self._summary(value=values))
        self._writer.add_event(event)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
