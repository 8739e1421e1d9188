"""Worker processes end and start again, with their lookup table, at each short epoch; the twin keeps them (persistent_workers)."""

from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from bench.label import Label
from bench.set_aside.common import Decoder, adamw, arguments, begin, next_token_loss, tokens, update

LABEL = Label(
    cause="input/workers_respawned",
    says=("persistent_workers", "persistent", "epoch", "respawn", "restart"),
    pattern="every 4 steps",
)
BATCH, STEPS_PER_EPOCH = 8, 4
TABLE: dict[str, int] = {}


def load_table(_worker: int) -> None:
    """What a tokenizer does when it is opened."""
    TABLE.update((f"word-{number}", number) for number in range(400_000))


class Text(Dataset[Tensor]):
    """One short epoch of text."""

    def __init__(self) -> None:
        self.rows = tokens(BATCH * STEPS_PER_EPOCH)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Tensor:
        return self.rows[index]


def main(flawed: bool, steps: int) -> None:
    begin()
    model = Decoder(layers=2)
    optimizer = adamw(model)
    loader = DataLoader(
        Text(),
        batch_size=BATCH,
        num_workers=1,
        worker_init_fn=load_table,
        persistent_workers=not flawed,
        prefetch_factor=4,
    )
    for _ in range(max(1, steps // STEPS_PER_EPOCH)):
        for text in loader:
            update(optimizer, next_token_loss(model(text), text))


if __name__ == "__main__":
    main(*arguments())
