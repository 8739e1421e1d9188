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
    weight = torch.randn(96, 96, requires_grad=True)
    batch = torch.randn(64, 96)
    optimizer = torch.optim.SGD([weight], lr=1e-9)
    for _ in range(options.steps):
        more = options.switched if redline.switch("extra") else 0
        optimizer.zero_grad()
        for _ in range(PIECES + options.extra + more):
            (batch @ weight).relu().sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()


if __name__ == "__main__":
    main()
