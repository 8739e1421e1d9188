"""For each sample a worker reads a file from its start up to the line wanted; the twin knows where lines begin."""

import json
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from bench.set_aside_2.common import Label, adamw, arguments, begin, residual_mlp, update

LABEL = Label(
    cause="input/slow_workers",
    says=("worker", "loader", "waits for", "num_workers", "dataset"),
)
BATCH, SIZE, LINES = 96, 64, 2000


class Lines(Dataset[tuple[Tensor, int]]):
    """Rows of numbers, one line of JSON each."""

    def __init__(self, path: Path, count: int, flawed: bool) -> None:
        self.path, self.count, self.flawed = path, count, flawed
        self.starts = [0]
        for line in path.read_bytes().splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        wanted = index * 7 % LINES
        with self.path.open(encoding="utf-8") as file:
            if self.flawed:
                for _ in range(wanted):
                    file.readline()
            else:
                file.seek(self.starts[wanted])
            row = json.loads(file.readline())
        return torch.tensor(row["values"]), row["kind"]


def main(flawed: bool, steps: int) -> None:
    begin()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.jsonl")
        rows = ({"values": torch.rand(SIZE).tolist(), "kind": n % 32} for n in range(LINES))
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        model = residual_mlp(SIZE, 512, 4, 32)
        optimizer = adamw(model)
        for inputs, kinds in DataLoader(Lines(path, BATCH * steps, flawed), BATCH, num_workers=1):
            update(optimizer, F.cross_entropy(model(inputs), kinds))


if __name__ == "__main__":
    main(*arguments())
