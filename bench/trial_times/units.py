"""A job whose steps are 100 equal pieces of work, and some more where `redline.switch("extra")` or `--extra` asks."""

import argparse

import torch

import redline

PIECES = 100  # of a step: one of them is 1 %


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--switched", type=int, default=0, help="more pieces while the switch is on")
    parser.add_argument("--extra", type=int, default=0, help="more pieces, always")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    weight, batch = torch.randn(96, 96), torch.randn(64, 96)
    with torch.no_grad():
        for _ in range(options.steps):
            more = options.switched if redline.switch("extra") else 0
            for _ in range(PIECES + options.extra + more):
                torch.relu(batch @ weight)
            redline.step()


if __name__ == "__main__":
    main()
