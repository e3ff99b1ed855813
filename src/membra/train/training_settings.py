"""How encoders are trained: every setting, with unit and reason; without torch: the command line reads it."""

from dataclasses import dataclass, field
from typing import Final

NETWORK: Final = "autoencoder"  # what `membra train` trains unless told otherwise: the paper's
CHANNELS = (32, 64, 128, 256)  # of the identity encoder's blocks; ONNX Runtime is quickest with multiples of 16
DEVICE = "auto"  # the GPU where there is one


@dataclass(frozen=True)
class TrainSettings:
    """How the autoencoder is trained; the paper's values."""

    dimension: int = 128  # d, length of an embedding
    sparsity: float = 1e-5  # lambda, weight of the L1 penalty beside the error *a pixel* (networks.py); 0: off
    patches_per_image: int = 300  # at most; so that a full page does not outweigh ten fragments
    epochs: int = 50  # at most
    batch: int = 256  # patches
    rate: float = 1e-3  # Adam's learning rate
    patience: int = 5  # epochs without a better reconstruction before it stops; the paper does not say
    min_gain: float = 1e-3  # relative; a smaller step down counts as none
    seed: int = 42  # of the weights, the choice of patches and their order


@dataclass(frozen=True)
class AugmentSettings:
    """How far a letter is changed; shares are of the letters, unless said otherwise."""

    turn: float = 0.1  # radians, either way: photographs are not straight
    shear: float = 0.1  # either way
    scale: float = 0.1  # either way, in each direction on its own
    shift: float = 0.07  # of the patch's side, either way
    thinner: float = 0.2  # share that loses a pixel of stroke all round
    thicker: float = 0.2  # share that gains one
    hole: float = 0.5  # share with a square lost to a tear or a stain
    hole_side: int = 16  # px
    camera: float = 0.6  # share of the groups that are shrunk and enlarged again, as by a coarser camera
    coarsest: int = 16  # px, to which a patch is shrunk at most
    finest: int = 48  # px, and at least
    sharpen: float = 0.7  # share of those that are then thresholded again, as by our own binarisation
    groups: int = 4  # parts of a batch that share one camera


@dataclass(frozen=True)
class IdentitySettings:
    """How the identity encoder is trained. docs/decisions/ has the figures behind each value."""

    dimension: int = 128  # d, length of an embedding
    channels: tuple[int, ...] = CHANNELS  # of the four blocks; weights to begin with bring their own
    epochs: float = 10.0  # passes over all letters
    min_letters: int = 0  # letters seen at least; many passes over few fragments learn them by heart, and find less
    batch: int = 256  # letters
    rate: float = 2e-3  # AdamW's highest learning rate, in one cycle
    decay: float = 1e-2  # AdamW's weight decay
    sharpness: float = 16.0  # of the softmax over cosines
    margin: float = 0.0  # of cosine by which the right class must lead
    smoothing: float = 0.1  # share of the target spread over all classes
    shared: float = 0.2  # share of a fragment's target given to its firm neighbours; 0 for known manuscripts
    neighbours: int = 3  # nearest fragments that may be firm neighbours, if the nearness is mutual
    share_from: float = 0.5  # part of the training after which targets are shared
    share_every: float = 0.12  # part of the training after which neighbours are looked for again
    held_out: float = 0.1  # share of the letters that training never sees: when they get harder, it stops
    stop_from: float = 0.6  # part of the training before which it never stops: a high rate makes all letters harder
    patience: int = 2  # checks in a row with harder held-out letters before it stops
    checks: int = 8  # how often the held-out letters are asked from then on
    kept: float = 0.0  # share of the weights to begin with that is mixed into what was learnt from them
    min_classes: int = 3  # fewer cannot be told apart in a way that says something of others
    min_glyphs: int = 0  # letters of all classes together; fewer are learnt by heart
    seed: int = 0
    augment: AugmentSettings = field(default_factory=AugmentSettings)


# For `adapt`: slowly, and then half of the way back, which keeps what is known of other hands (M. Wortsman et al.,
# "Robust fine-tuning of zero-shot models", CVPR 2022). docs/decisions/half-way-back.md has the figures.
ADAPTING = IdentitySettings(rate=5e-4, kept=0.5, min_classes=12, min_glyphs=400)
