"""The networks in PyTorch. Only training imports them; encoding does not."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from membra.train.training_settings import CHANNELS


class Autoencoder(nn.Module):
    """The paper's sparse convolutional autoencoder: f: (n, 1, 64, 64) -> (n, d) and back.

    Three stride-2 convolutions (64 -> 32 -> 16 -> 8) and a linear layer; the decoder mirrors them.
    1.1 M parameters at d = 128. Names and indices of the layers are those of the authors' published weights.
    """

    def __init__(self, dimension: int = 128) -> None:
        super().__init__()
        self.encoder_net = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * 8 * 8, dimension),
        )
        self.decoder_net = nn.Sequential(
            nn.Linear(dimension, 64 * 8 * 8),
            nn.ReLU(),
            nn.Unflatten(1, (64, 8, 8)),
            nn.ConvTranspose2d(64, 32, 3, stride=2, padding=1, output_padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 16, 3, stride=2, padding=1, output_padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(16, 1, 3, stride=2, padding=1, output_padding=1),
            nn.Sigmoid(),
        )

    def forward(self, patches: Tensor) -> tuple[Tensor, Tensor]:
        """Return embeddings (n, d) and reconstructions (n, 1, 64, 64) of patches (n, 1, 64, 64) in 0..1."""
        embeddings = self.encoder_net(patches)
        return embeddings, self.decoder_net(embeddings)


def reconstruction_loss(patches: Tensor, reconstructions: Tensor) -> Tensor:
    """Return the mean squared error over patches and pixels.

    The paper's formula sums over pixels. Its lambda = 1e-5 belongs to the mean, which the published code uses: with the
    sum, the penalty is 4096 times weaker and has no effect. Measured on 17,504 letters of 64 Hebrew pages, 8
    epochs, mean |z|: 0.69 with the mean over pixels, 10.2 with the sum; with the mean after 30 epochs 0.28; the
    published weights have 0.24.
    """
    return (reconstructions - patches).square().mean()


def sparsity_loss(embeddings: Tensor) -> Tensor:
    """(1/|P|) sum_p ||f(p)||_1, summed over the dimensions: the penalty that keeps most activations near zero."""
    return embeddings.abs().sum(dim=1).mean()


class Identity(nn.Module):
    """The identity encoder: (n, 1, 64, 64) -> unit vectors (n, d), trained to tell which hand wrote a letter.

    A stride-2 convolution and four residual blocks, the last three with stride 2 (64 -> 32 -> 32 -> 16 -> 8 -> 4),
    global average pooling, a linear layer and L2 normalisation; then `centre` (d,), the mean of the training hands, is
    subtracted and the result normalised again. `channels` are those of the blocks.
    """

    def __init__(self, dimension: int = 128, channels: Sequence[int] = CHANNELS) -> None:
        super().__init__()
        first, second, third, last = channels
        self.stem = nn.Sequential(nn.Conv2d(1, first, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(first))
        self.blocks = nn.Sequential(
            Residual(first, first, 1), Residual(first, second, 2), Residual(second, third, 2), Residual(third, last, 2)
        )
        self.out = nn.Linear(last, dimension)
        self.centre: Tensor
        self.register_buffer("centre", torch.zeros(dimension))

    def forward(self, patches: Tensor) -> Tensor:
        """Return embeddings (n, d) of patches (n, 1, 64, 64) in 0..1."""
        seen = self.blocks(nn.functional.relu(self.stem(patches)))
        whole = nn.functional.normalize(self.out(seen.mean(dim=(2, 3))), dim=1)
        return nn.functional.normalize(whole - self.centre, dim=1)

    def look_twice(self, patches: Tensor) -> Tensor:
        """Return the mean of two `forward` passes, one on the patch and one on a copy blurred as by a coarser camera.

        What depends on a pixel at a stroke's edge belongs to the photograph; what both passes share belongs to the
        hand. Encoders describe with this (figures: docs/decisions/two-looks.md); training has camera augmentation.
        """
        blurred = nn.functional.avg_pool2d(patches, 5, stride=1, padding=2)
        coarse = (3 * blurred - 1).clamp(0, 1)  # a soft threshold at 0.5
        return nn.functional.normalize(self(patches) + self(coarse), dim=1)


class Residual(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv2d(inner, outer, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(outer)
        )
        self.second = nn.Sequential(nn.Conv2d(outer, outer, 3, padding=1, bias=False), nn.BatchNorm2d(outer))
        self.short = (
            nn.Identity()
            if inner == outer and stride == 1
            else nn.Sequential(nn.Conv2d(inner, outer, 1, stride=stride, bias=False), nn.BatchNorm2d(outer))
        )

    def forward(self, seen: Tensor) -> Tensor:
        """(n, inner, h, w) -> (n, outer, h / stride, w / stride)."""
        inner = self.second(nn.functional.relu(self.first(seen)))
        return nn.functional.relu(inner + self.short(seen))
