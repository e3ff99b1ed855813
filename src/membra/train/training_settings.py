"""The training settings, with unit and reason per field. Imports no torch, since the command line reads them."""

from dataclasses import dataclass, field
from typing import Final

NETWORK: Final = "autoencoder"  # default of `membra train`: the paper's
CHANNELS = (32, 64, 128, 256)  # of the identity encoder's blocks; ONNX Runtime is fastest with multiples of 16
DEVICE = "auto"  # a GPU if there is one


@dataclass(frozen=True)
class TrainSettings:
    """Settings of the autoencoder's training; the paper's values."""

    dimension: int = 128  # d, length of an embedding
    sparsity: float = 1e-5  # lambda, weight of the L1 penalty relative to the error *per pixel* (networks.py); 0: off
    patches_per_image: int = 300  # at most; so that a full page does not outweigh ten fragments
    epochs: int = 50  # at most
    batch: int = 256  # patches
    rate: float = 1e-3  # Adam's learning rate
    patience: int = 5  # epochs without improvement before training stops; the paper gives none
    min_gain: float = 1e-3  # relative; a smaller decrease counts as no improvement
    seed: int = 42  # of the weights, the choice of patches and their order


@dataclass(frozen=True)
class AugmentSettings:
    """Settings of the augmentation; shares are of the letters unless another unit is given."""

    turn: float = 0.1  # radians, either way: photographs are not exactly upright
    shear: float = 0.1  # either way
    scale: float = 0.1  # either way, independently in each direction
    shift: float = 0.07  # of the patch's side, either way
    thinner: float = 0.2  # share that loses a pixel of stroke all round
    thicker: float = 0.2  # share that gains a pixel of stroke all round
    hole: float = 0.5  # share with a square lost to a tear or a stain
    hole_side: int = 16  # px
    camera: float = 0.6  # share of the groups that are shrunk and enlarged again, as by a camera of lower resolution
    coarsest: int = 16  # px, smallest side that a patch is shrunk to
    finest: int = 48  # px, largest side
    sharpen: float = 0.7  # share of those that are then thresholded again, as by membra's own binarisation
    groups: int = 4  # parts of a batch that share one camera


@dataclass(frozen=True)
class IdentitySettings:
    """Settings of the identity encoder's training. docs/decisions/ has the figures behind each value."""

    dimension: int = 128  # d, length of an embedding
    channels: tuple[int, ...] = CHANNELS  # of the four blocks; initial weights have their own
    epochs: float = 10.0  # passes over all letters
    min_letters: int = 0  # minimum number of letters seen; many passes over few fragments overfit
    batch: int = 256  # letters
    rate: float = 2e-3  # AdamW's highest learning rate, in one cycle
    decay: float = 1e-2  # AdamW's weight decay
    sharpness: float = 16.0  # of the softmax over cosines
    margin: float = 0.0  # cosine margin by which the right class must lead
    smoothing: float = 0.1  # share of the target spread over all classes
    shared: float = 0.2  # share of a fragment's target given to its mutual neighbours; 0 for known manuscripts
    neighbours: int = 3  # nearest fragments that can be mutual neighbours
    share_from: float = 0.5  # part of the training after which targets are shared with neighbours
    share_every: float = 0.12  # part of the training between two searches for neighbours
    held_out: float = 0.1  # share of the letters left out of training: when their loss rises, training stops
    stop_from: float = 0.6  # part of the training before which it never stops: a high rate raises every loss
    patience: int = 2  # consecutive checks with a higher held-out loss before it stops
    checks: int = 8  # number of held-out checks from then on
    kept: float = 0.0  # share of the initial weights in the interpolation with the trained ones
    min_classes: int = 3  # telling fewer classes apart does not carry over to other hands
    min_glyphs: int = 0  # letters of all classes together; training on fewer overfits
    seed: int = 0
    augment: AugmentSettings = field(default_factory=AugmentSettings)


# For `adapt`: a low rate, then half of the way back to the initial weights, which keeps what is known of other hands
# (M. Wortsman et al., "Robust fine-tuning of zero-shot models", CVPR 2022). Figures: docs/decisions/half-way-back.md.
ADAPTING = IdentitySettings(rate=5e-4, kept=0.5, min_classes=12, min_glyphs=400)
