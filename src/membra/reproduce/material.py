"""Data of the experiments: glyphs, encoders, bags and distances of one collection, each computed once and cached."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from membra.compare.codebook import CodebookSettings, Vocabulary
from membra.compare.methods import distances, fit_vocabulary, two_stage
from membra.describe.bag import Bag, BagSettings, make_bag
from membra.describe.encoder import Encoder
from membra.describe.recipe import Description, Recipe, eye_of, pick
from membra.describe.workers import Workers, outcome_of
from membra.errors import Refused
from membra.files import atomic_write
from membra.reproduce.settings import BASE, FIRST_SEED, GIVEN, Fit, ReproduceSettings, Variant
from membra.reproduce.steps import Steps
from membra.reproduce.work import Arrays, Work
from membra.see.glyphs import Glyphs
from membra.sources.fragment import Fragment
from membra.train.side_by_side import Training, train_all
from membra.train.training_settings import DEVICE, TrainSettings


@dataclass(frozen=True)
class Seen:
    """The glyphs of every fragment under one recipe, and their digest."""

    digest: str
    glyphs: list[Glyphs]  # empty if the image was rejected
    refused: dict[int, str]  # index of the fragment -> reason


class Material:
    """Glyphs, encoders, bags and distances, by variant, seed and K, each computed on first use and cached."""

    def __init__(
        self,
        fragments: Sequence[Fragment],
        settings: ReproduceSettings,
        work: Work,
        steps: Steps,
        *,
        encoder: Encoder | None = None,
        device: str = DEVICE,
        pool: Workers | None = None,
    ) -> None:
        self.pool = pool or Workers(1)
        self.fragments, self.settings, self.work, self.steps = list(fragments), settings, work, steps
        self.given, self.device = encoder, device
        self.main = GIVEN if encoder else BASE  # the variant of all tables but the ablations
        self.decoder: Path | None = None  # the given encoder's file, if it is a .safetensors file
        # (m, m), the candidates of each described fragment, for the shortlist of two-stage; None: all others
        self.among: NDArray[np.bool_] | None = None
        self._images = [_digest_of_file(fragment.path) for fragment in self.fragments]
        self._seen: dict[str, Seen] = {}
        self._embeddings: dict[tuple[Variant, int], list[NDArray[np.float32]]] = {}
        base = self.seen(BASE)
        counts = [len(glyphs) for glyphs in base.glyphs]
        self.glyph_counts = counts
        self.described = [index for index, count in enumerate(counts) if count >= settings.recipe.min_glyphs]

    def seeds(self, variant: Variant) -> list[int]:
        """Return the seeds to run. With a given encoder only the authors' seed, so that figures can be compared."""
        return [FIRST_SEED + index for index in range(1 if variant is GIVEN else self.settings.seeds)]

    def excluded(self) -> list[dict[str, str]]:
        """Return every fragment that is not described, with the reason."""
        seen, least = self.seen(BASE), self.settings.recipe.min_glyphs
        return [
            {
                "id": fragment.id,
                "reason": seen.refused.get(index, f"{self.glyph_counts[index]} letters, fewer than {least}"),
            }
            for index, fragment in enumerate(self.fragments)
            if index not in set(self.described)
        ]

    def seen(self, variant: Variant) -> Seen:
        """Return the glyphs of every fragment, with the variant's patch layout."""
        if variant.fit not in self._seen:
            key = self.glyphs_key(variant)
            arrays = self.work.kept("glyphs", key, lambda: self._see(variant.fit))
            # By content, so that a setting that changes no glyph costs no training.
            digest = hashlib.sha256(b"".join(arrays[name].tobytes() for name in ("counts", "boxes", "patches")))
            ends = np.cumsum(arrays["counts"])[:-1]
            parts = zip(np.split(arrays["boxes"], ends), np.split(arrays["patches"], ends), strict=True)
            glyphs = [Glyphs(boxes, patches, {}) for boxes, patches in parts]
            refused = {index: str(reason) for index, reason in enumerate(arrays["refused"]) if str(reason)}
            self._seen[variant.fit] = Seen(digest.hexdigest(), glyphs, refused)
        return self._seen[variant.fit]

    def encoder_path(self, variant: Variant, seed: int) -> Path:
        """Return the path of the variant's `.onnx` file, trained or not."""
        if variant is GIVEN:
            assert self.given is not None
            return self.work.path("given", {"digest": self.given.digest}, ".onnx")
        recipe = {
            "glyphs": self.seen(variant).digest,
            "described": self.described,
            "training": asdict(self.training(variant, seed)),
        }
        return self.work.path("encoder", recipe, ".onnx")

    def training(self, variant: Variant, seed: int) -> TrainSettings:
        return TrainSettings(
            dimension=variant.dimension, sparsity=variant.sparsity, epochs=self.settings.epochs, seed=seed
        )

    def encoder(self, variant: Variant, seed: int) -> Path:
        """Return the variant's `.onnx` file, trained on the described fragments if it is missing."""
        path = self.encoder_path(variant, seed)
        if path.exists():
            return path
        if variant is GIVEN:
            assert self.given is not None
            atomic_write(path, self.given.onnx)
        else:
            self.train([variant])
        return path

    def train(self, variants: Sequence[Variant]) -> None:
        """Train the missing encoders of these variants, all seeds in parallel."""
        trainings = []
        for seed in range(FIRST_SEED, FIRST_SEED + self.settings.seeds):
            for variant in variants:
                if variant is not GIVEN:
                    glyphs = self.work.path("glyphs", self.glyphs_key(variant), ".npz")
                    settings, out = self.training(variant, seed), self.encoder_path(variant, seed)
                    trainings.append(Training(glyphs, tuple(self.described), settings, out))
        if not all(training.out.exists() for training in trainings):
            with self.steps.step(TRAINING_STEP) as progress:
                train_all(trainings, device=self.device, progress=progress)

    def embeddings(self, variant: Variant, seed: int) -> list[NDArray[np.float32]]:
        """Return (n, d) for each described fragment. Only the last result stays in memory."""
        path, key = self.encoder(variant, seed), (variant, seed)
        if key not in self._embeddings:
            encoder, seen = Encoder.open(path), self.seen(variant)
            found = [encoder.encode(seen.glyphs[index].patches) for index in self.described]
            self._embeddings = {key: found}
        return self._embeddings[key]

    def bags(self, variant: Variant, seed: int, words: int | None = None) -> list[Bag]:
        """Return the bag of each described fragment with K = `words`, or the recipe's K."""
        settings = self.bag_settings(seed, words)
        key = self.recipe_key(variant, seed) | {"bag": asdict(settings)}
        arrays = self.work.kept(
            "bags", key, lambda: packed([make_bag(e, settings) for e in self.embeddings(variant, seed)])
        )
        return unpacked(arrays)

    def bag_settings(self, seed: int, words: int | None = None) -> BagSettings:
        if words is None:
            return replace(self.settings.recipe.bag, seed=seed)
        return replace(self.settings.recipe.bag, seed=seed, words=words, letters_per_word=0)

    def matrix(
        self, variant: Variant, seed: int, method: str, words: int | None = None, *, most: int | None = None
    ) -> NDArray[np.float64]:
        """Return distances (m, m) of the described fragments by a bob- method, by their `most` heaviest prototypes."""
        key = self.recipe_key(variant, seed) | {"bag": asdict(self.bag_settings(seed, words)), "method": method}

        def make() -> Arrays:
            bags = self.bags(variant, seed, words)
            return {"matrix": bag_matrix([most_populated(bag, most) for bag in bags] if most else bags, method)}

        return self.work.kept("matrix", key | ({"most": most} if most else {}), make)["matrix"]

    def baseline(self, seed: int, method: str) -> NDArray[np.float64]:
        """Return distances (m, m) by a bow- or pool- method, or two-stage, with the main encoder."""
        key = self.recipe_key(self.main, seed) | {"bag": asdict(self.bag_settings(seed)), "method": method}
        key |= self.among_key() if method == "two-stage" else {}

        def make() -> Arrays:
            bags = self.bags(self.main, seed)
            if method == "two-stage":
                near = self.baseline(seed, "bow-centroids-cosine")
                indices = range(len(bags))
                return {"matrix": two_stage(bags, bags, near, same=indices, either_way=True, among=self.among)}
            descriptions = self.descriptions(seed)
            kind = "" if method.startswith("pool") else method.split("-")[1]
            fitted = {kind: self.vocabulary(seed, kind)} if kind else {}
            same = range(len(descriptions))
            return {"matrix": distances(descriptions, descriptions, method, same=same, vocabularies=fitted)}

        return self.work.kept("matrix", key, make)["matrix"]

    def among_key(self) -> dict[str, object]:
        """Return `among` as part of a cache key: nothing where all are candidates."""
        return {} if self.among is None else {"among": hashlib.sha256(self.among.tobytes()).hexdigest()}

    def vocabulary(self, seed: int, kind: str) -> Vocabulary:
        """Return the collection's codebook over `raw` embeddings or `centroids`."""
        settings = CodebookSettings(seed=seed)
        key = self.recipe_key(self.main, seed) | {
            "bag": asdict(self.bag_settings(seed)),
            "words": asdict(settings),
            "kind": kind,
        }

        def make() -> Arrays:
            found = fit_vocabulary(self.descriptions(seed), kind, settings)
            return {"codebook": found.codebook, "idf": found.idf, "histograms": found.histograms}

        return Vocabulary(**self.work.kept("codebook", key, make))

    def histograms(self, seed: int, kind: str) -> NDArray[np.float64]:
        """Return the tf-idf histograms (m, K_g) of the described fragments over `raw` embeddings or `centroids`."""
        return self.vocabulary(seed, kind).histograms

    def descriptions(self, seed: int) -> list[Description]:
        """Return the described fragments under the main encoder, as input of the search methods."""
        glyphs, bags = self.seen(BASE).glyphs, self.bags(self.main, seed)
        return [
            Description(glyphs[index].boxes, embeddings, bag)
            for index, embeddings, bag in zip(self.described, self.embeddings(self.main, seed), bags, strict=True)
        ]

    def recipe_key(self, variant: Variant, seed: int) -> dict[str, object]:
        """Return the inputs of an embedding: the cache key of all results of this variant and seed."""
        encoder = hashlib.sha256(self.encoder(variant, seed).read_bytes()).hexdigest()
        return {"glyphs": self.seen(variant).digest, "described": self.described, "encoder": encoder}

    def ink_key(self) -> dict[str, object]:
        """Return the inputs of the ink of the described fragments, as a cache key."""
        return self.glyphs_key(BASE) | {"described": self.described}

    def one_piece(self) -> Recipe:
        """Return the recipe by which every image is one fragment."""
        return self._recipe_for(BASE.fit)

    def glyphs_key(self, variant: Variant) -> dict[str, object]:
        """Return the inputs of the glyphs of every fragment, with the variant's patch layout, as a cache key."""
        recipe = self._recipe_for(variant.fit)
        stages = {"parchment": asdict(recipe.parchment), "ink": asdict(recipe.ink), "glyphs": asdict(recipe.glyphs)}
        return {"images": self._images, "stages": stages, "revision": recipe.revision, "eye": eye_of(recipe)}

    def _recipe_for(self, fit: Fit) -> Recipe:
        recipe = self.settings.recipe
        # Labels are of images, so every image is one fragment.
        return replace(recipe, glyphs=replace(recipe.glyphs, fit=fit), pieces="one")

    def _see(self, fit: Fit) -> Arrays:
        recipe, found, refused = self._recipe_for(fit), [], []
        with self.steps.step(seeing_step(fit)) as within:
            for picked in self.pool.each(partial(_picked, recipe=recipe), self.fragments, within):
                found.append(_NO_GLYPHS if isinstance(picked, Refused) else picked)
                refused.append(str(picked) if isinstance(picked, Refused) else "")
        return {
            "counts": np.array([len(glyphs) for glyphs in found]),
            "boxes": np.concatenate([glyphs.boxes for glyphs in found]),
            "patches": np.concatenate([glyphs.patches for glyphs in found]),
            "refused": np.array(refused, dtype=np.str_),
        }


_NO_GLYPHS = Glyphs(np.zeros((0, 4), np.int32), np.zeros((0, 64, 64), np.uint8), {})


TRAINING_STEP = "training encoders"


def _picked(fragment: Fragment, recipe: Recipe) -> Glyphs | Refused:
    """Return the glyphs of a fragment, or why there are none; runs in a worker process."""
    return outcome_of(lambda one: pick(one, recipe)[1].glyphs, fragment)


def seeing_step(fit: str) -> str:
    return f"cutting letters: {fit}"


def most_populated(bag: Bag, words: int) -> Bag:
    """Keep the `words` heaviest prototypes of a bag; `Bag` scales their weights to sum 1. The earlier one wins ties."""
    order = np.argsort(-bag.weights, kind="stable")[:words]
    return Bag(bag.prototypes[order], bag.weights[order])


def bag_matrix(bags: Sequence[Bag], method: str) -> NDArray[np.float64]:
    """Return distances (m, m) between bags by a bob- method."""
    nothing = np.zeros((0, bags[0].prototypes.shape[1]), np.float32) if bags else np.zeros((0, 1), np.float32)
    descriptions = [Description(np.zeros((0, 4), np.int32), nothing, bag) for bag in bags]
    return distances(descriptions, descriptions, method, same=range(len(descriptions)))


def packed(bags: Sequence[Bag]) -> Arrays:
    """Convert bags to arrays for the cache; `unpacked` reverses it."""
    members = [np.zeros(0, np.int32) if bag.members is None else bag.members for bag in bags]
    return {
        "prototypes": np.concatenate([bag.prototypes for bag in bags]),
        "weights": np.concatenate([bag.weights for bag in bags]),
        "members": np.concatenate(members),
        "errors": np.array([bag.error for bag in bags]),
        "words": np.array([len(bag) for bag in bags]),
        "glyphs": np.array([len(own) for own in members]),
    }


def unpacked(arrays: Arrays) -> list[Bag]:
    words, glyphs = np.cumsum(arrays["words"])[:-1], np.cumsum(arrays["glyphs"])[:-1]
    parts = zip(
        np.split(arrays["prototypes"], words),
        np.split(arrays["weights"], words),
        np.split(arrays["members"], glyphs),
        arrays["errors"].tolist(),
        strict=True,
    )
    return [Bag(*part) for part in parts]


def _digest_of_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""  # reading the image will report why
