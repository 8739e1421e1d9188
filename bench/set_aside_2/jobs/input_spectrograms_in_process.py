"""The training process itself turns sound into spectrograms, between steps; the twin leaves that to a worker."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from bench.set_aside_2.common import Encoder, Label, adamw, arguments, begin, update

LABEL = Label(
    cause="input/loading_in_training_process",
    says=("num_workers", "worker", "DataLoader", "loader"),
)
BATCH, BINS = 16, 256


class Sounds(Dataset[tuple[Tensor, int]]):
    """Clips of two seconds at 16 kHz; given an echo and made a spectrogram when asked for."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.window = torch.hann_window(2 * BINS)
        self.room = torch.fft.rfft(torch.randn(24_000) * torch.linspace(1, 0, 24_000) ** 4, 2**16)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        sound = torch.rand(32_000) - 0.5
        heard = torch.fft.irfft(torch.fft.rfft(sound, 2**16) * self.room)[:32_000]
        power = torch.stft(heard, 2 * BINS, 128, window=self.window, return_complex=True).abs().square()
        return F.avg_pool1d(power[1:].clamp_min(1e-10).log10()[None], 6)[0].T.contiguous(), index % 100


def main(flawed: bool, steps: int) -> None:
    begin()
    model = Encoder(BINS, width=256, layers=2)
    optimizer = adamw(model)
    loader = DataLoader(Sounds(BATCH * steps), BATCH, num_workers=0 if flawed else 1)
    for sounds, kinds in loader:
        update(optimizer, F.cross_entropy(model(sounds), kinds))


if __name__ == "__main__":
    main(*arguments())
