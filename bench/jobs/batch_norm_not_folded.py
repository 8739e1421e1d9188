"""Inference runs each batch norm after its convolution; the twin folded them into the convolutions."""

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from bench.common import Label, arguments

LABEL = Label(
    cause="kernels/batch_norm_not_folded", says=("batch norm", "batch_norm", "fuse_conv_bn", "fold"), kind="inference"
)


def block(folded: bool) -> nn.Module:
    convolution, norm = nn.Conv2d(16, 16, 1, bias=False).eval(), nn.BatchNorm2d(16).eval()
    parts = [fuse_conv_bn_eval(convolution, norm)] if folded else [convolution, norm]
    return nn.Sequential(*parts, nn.ReLU(inplace=True))


def main(flawed: bool, steps: int) -> None:
    model = nn.Sequential(*(block(folded=not flawed) for _ in range(12))).eval()
    images = torch.randn(16, 16, 64, 64)
    with torch.inference_mode():
        for _ in range(steps):
            model(images)


if __name__ == "__main__":
    main(*arguments())
