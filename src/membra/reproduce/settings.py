"""The settings of a reproduction: the paper's choices, the seeds, and the budget of every training."""

from dataclasses import dataclass
from typing import Literal

from membra.describe.recipe import PAPER, Recipe
from membra.train.training_settings import TrainSettings

Fit = Literal["fitpad", "stretched", "context"]


@dataclass(frozen=True)
class Variant:
    """One way to train an encoder: a row of the tables 4, 5 and 6."""

    name: str
    fit: Fit = "fitpad"
    dimension: int = TrainSettings.dimension
    sparsity: float = TrainSettings.sparsity


BASE = Variant("d = 128, sparse, shape kept")
GIVEN = Variant("the given encoder")  # with --encoder, for all tables but the ablations
DIMENSIONS = (Variant("d = 64", dimension=64), BASE, Variant("d = 256", dimension=256))
SPARSITIES = (BASE, Variant("sparsity off", sparsity=0.0))
FITS = (BASE, Variant("stretched", fit="stretched"), Variant("context", fit="context"))
VARIANTS = tuple(dict.fromkeys((*DIMENSIONS, *SPARSITIES, *FITS)))

MAIN_WORDS = 20  # K of the paper's main configuration
ABLATION_WORDS = 32  # K of its tables on d and sparsity
FIRST_SEED = 42  # the authors' value; further seeds count up from it


@dataclass(frozen=True)
class ReproduceSettings:
    """Budgets and sample sizes. Every encoder has the same budget, so that comparisons are fair."""

    recipe: Recipe = PAPER
    seeds: int = 3  # each used for training, k-means and codebooks together
    epochs: int = 10  # of every training; the paper has 50 with early stopping: see docs/reproduce.md for why fewer
    words: tuple[int, ...] = (8, 16, 20, 32, 64)  # K of table 3 and of table 8
    rich_words: tuple[int, ...] = (32, 40, 64)  # K' of table 9, of which the K most populated are kept
    bound_pairs: int = 600  # pairs of table 8; each costs an exact transport of some 400 x 400 components
    bound_components: int = 1500  # fragments with more are left out of table 8: a transport would take minutes
    cut_letters: tuple[int, ...] = (15, 25, 50, 100, 200)  # table 10: neighbouring letters left in a cut query
    timed_queries: int = 20  # of table 7
    component_pairs: int = 2500  # of table 12 at most: 60 pages, about two minutes
    thorough: bool = True  # whether to make tables 12, 14, 15 and 17 to 19 and to adapt membra's encoder


QUICK = ReproduceSettings(seeds=1, epochs=3, thorough=False)  # a first look: one seed, three epochs
