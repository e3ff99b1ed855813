"""The eye as a torch module: a small U-Net that classifies each pixel as ink or not and as surface or not."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from membra.see.eye import CELL, NEAR, NEAR_CELLS

WIDTHS = (16, 32, 64, 112, 176)  # channels at a half (stem, then blocks), a quarter, an eighth, a sixteenth


class EyeNetwork(nn.Module):
    """Maps RGB (n, 3, h, w) in 0..1 to `maps` (n, 2, h, w) and `fields` (n, 3, h / 16, w / 16).

    maps: logits of ink and of writing surface. fields: cosine and sine of the angle of the writing, and log2 of the
    letter height over 24 px. h and w are multiples of 16. 1.2 M parameters, 36 GFLOP per megapixel: most of the work is
    done at a quarter of the size and below, so that it runs on two cores.
    """

    def __init__(self) -> None:
        super().__init__()
        stem, half, quarter, eighth, deep = WIDTHS
        self.stem = convolution(4, stem, stride=2)
        self.second = convolution(stem, half)
        self.quarter = nn.ModuleList([convolution(half, quarter, stride=2), convolution(quarter, quarter)])
        self.eighth = nn.ModuleList([convolution(quarter, eighth, stride=2), convolution(eighth, eighth)])
        self.deep = nn.ModuleList(
            [
                convolution(eighth, deep, stride=2),
                convolution(deep, deep, dilation=2),
                convolution(deep, deep, dilation=4),
            ]
        )
        self.narrow = nn.ModuleList(
            [convolution(a, b, size=1) for a, b in ((deep, eighth), (eighth, quarter), (quarter, half))]
        )
        self.join = nn.ModuleList([convolution(width, width) for width in (eighth, quarter, half)])
        self.maps = nn.Conv2d(half, 8, 3, padding=1)
        self.fields = nn.Conv2d(deep, 3, 1)

    def forward(self, photograph: Tensor) -> tuple[Tensor, Tensor]:
        half = functional.relu(self.second(functional.relu(self.stem(channels(photograph)))))
        quarter = _block(self.quarter, half)
        eighth = _block(self.eighth, quarter)
        deep = _block(self.deep, eighth)
        seen = deep
        for narrow, join, beside in zip(self.narrow, self.join, (eighth, quarter, half), strict=True):
            wider = functional.interpolate(functional.relu(narrow(seen)), scale_factor=2.0, mode="nearest")
            seen = functional.relu(join(wider + beside))
        return functional.pixel_shuffle(self.maps(seen), 2), self.fields(deep)


def channels(photograph: Tensor) -> Tensor:
    """Return (n, 4, h, w): luminance normalised by local mean and deviation, luminance itself, and two colour channels.

    The deviation has a floor, so that grain on an even ground is not amplified into strokes.
    """
    red, green, blue = photograph.unbind(dim=1)
    luminance = (0.299 * red + 0.587 * green + 0.114 * blue).unsqueeze(1)
    cells = functional.avg_pool2d(torch.cat([luminance, luminance * luminance], dim=1), CELL)
    near = functional.avg_pool2d(cells, NEAR_CELLS, stride=1, padding=NEAR_CELLS // 2, count_include_pad=False)
    mean, square = near[:, :1], near[:, 1:]
    spread = (square - mean * mean).clamp(min=0.0).sqrt() + NEAR
    wide = functional.interpolate(
        torch.cat([mean, spread], dim=1), scale_factor=float(CELL), mode="bilinear", align_corners=False
    )
    colour = torch.stack([red, blue], dim=1) - luminance
    return torch.cat([(luminance - wide[:, :1]) / wide[:, 1:], 2 * luminance - 1, 2 * colour], dim=1)


def convolution(inner: int, outer: int, *, stride: int = 1, dilation: int = 1, size: int = 3) -> nn.Sequential:
    """Return a convolution with its batch norm, which is folded into it in the ONNX graph."""
    padding = dilation * (size // 2)
    return nn.Sequential(
        nn.Conv2d(inner, outer, size, stride=stride, padding=padding, dilation=dilation, bias=False),
        nn.BatchNorm2d(outer),
    )


def _block(layers: nn.ModuleList, seen: Tensor) -> Tensor:
    """Apply a block: the first layer halves the size, the others are residual."""
    seen = functional.relu(layers[0](seen))
    for layer in layers[1:]:
        seen = functional.relu(seen + layer(seen))
    return seen
