"""Table 11: the paper's method and its peers on the same ink and queries."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from membra.compare.encodings import EncodingSettings, Vectors
from membra.compare.methods import distances
from membra.compare.peers import PEERS, Peer, encode
from membra.describe.bag import BagSettings, in_company, make_bag
from membra.describe.encoder import Encoder
from membra.describe.keypoints import keypoints_of
from membra.describe.recipe import MEMBRA, Description
from membra.errors import Invalid
from membra.files import atomic_write
from membra.judge.evaluate import barred_among
from membra.judge.tables import SCORES, Contender, Table, score_rows
from membra.reproduce.experiments import Known, by_seed, contend, empty_table, text_column, without
from membra.reproduce.material import Material
from membra.reproduce.settings import BASE, FIRST_SEED
from membra.reproduce.work import Arrays
from membra.see.sift import SiftSettings, within_budget

KEYPOINTS_STEP, PEERS_STEP, ADAPT_STEP = "describing keypoints", "comparing peers", "adapting membra's encoder"
# Chosen on Latin manuscripts; docs/claims.md has their scores on Hebrew ones, and other settings on Latin ones.
SIFT = SiftSettings()
ENCODING = EncodingSettings()


class Keypoints:
    """Keypoint encodings of the described fragments; descriptors are computed with the first encoding."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self._found: list[Vectors] = []

    def distances(self, peer: Peer, barred: NDArray[np.bool_]) -> list[NDArray[np.float64]]:
        """Return (m, m) by a peer, for each seed if its codebook depends on it; `barred` (m, m) must not answer."""
        seeds = self.material.seeds(self.material.main) if peer.encoding == "vlad" else [FIRST_SEED]
        return [peer.matrix(self.vectors(peer.encoding, seed), barred, ENCODING) for seed in seeds]

    def vectors(self, encoding: str, seed: int = FIRST_SEED) -> NDArray[np.float64]:
        """Return the `vlad`, `fisher` or `mean` vector of each fragment, (m, D), unwhitened; cached."""
        settings = replace(ENCODING, seed=seed)
        before = asdict(replace(settings, whiten=0, shrinkage=0.0))  # whitening is applied after the cached result
        key = self.material.ink_key() | {"sift": asdict(SIFT), "encoding": before, "kind": encoding}
        make = partial(encode, encoding, settings=settings)
        return self.material.work.kept("keypoints", key, lambda: {"vectors": make(self._descriptors())})["vectors"]

    def _descriptors(self) -> list[Vectors]:
        if not self._found:
            material = self.material
            look = partial(
                keypoints_of, recipe=material.one_piece(), settings=within_budget(SIFT, len(material.described))
            )
            with material.steps.step(KEYPOINTS_STEP) as within:
                described = [material.fragments[index] for index in material.described]
                self._found = list(material.pool.each(look, described, within))
        return self._found


def peers(material: Material, known: Known) -> Table:
    """Compare BoB-Chamfer, keypoint encodings with and without a last step, and membra's encoder, ready and adapted."""
    table = empty_table(
        material,
        known,
        11,
        "peers",
        "Other methods on the same ink and the same queries",
        [text_column("method"), *SCORES],
    )
    if known.why_not:
        return without(table, known.why_not)
    points = Keypoints(material)
    barred = barred_among(known.question, known.indices, len(material.described))
    methods: list[tuple[str, str, Callable[[], Sequence[NDArray[np.float64]]]]] = [
        ("bob-chamfer", "BoB-Chamfer (the paper)", lambda: by_seed(material, "bob-chamfer")),
        *((peer.name, peer.label, partial(points.distances, peer, barred)) for peer in PEERS),
        ("membra-ready", "membra's ready encoder, bob-local", lambda: [_membra(material, Encoder.ready(), MEMBRA.bag)]),
        ("membra-adapted", "membra's encoder adapted, bob-local", lambda: [_adapted(material)]),
    ]
    contenders: list[Contender] = []
    with material.steps.step(PEERS_STEP) as within:
        for done, (name, label, make) in enumerate(methods, start=1):
            contenders.append(contend({"method": label, "name": name}, make, known))
            within(done, len(methods))
    return replace(
        table,
        rows=score_rows(contenders, [None, *[0] * (len(contenders) - 1)]),
        reading="Do other methods do as well? SIFT on the same ink as the paper's method, pooled by the common "
        "encodings of the field, and membra's own encoder on the same letters; each is tested against BoB-Chamfer.",
        notes=[
            "Settings of SIFT, VLAD and Fisher vectors were chosen on other manuscripts, in Latin script. "
            "Codebooks, mixtures and whitening are fitted to this collection without its labels, as BoW's codebook is. "
            f"Whitening keeps {ENCODING.whiten} dimensions, but at most a quarter of the number of fragments.",
            "Query expansion and graph re-ranking use no pair that is excluded as an answer. membra's encoder was "
            "trained on letters of many manuscripts (docs/encoder.md), possibly of these.",
        ],
    )


def _membra(material: Material, encoder: Encoder, settings: BagSettings) -> NDArray[np.float64]:
    """Return `bob-local` distances (m, m) by an identity encoder, on the same glyphs as the other methods."""
    seen = material.seen(BASE)
    key = {"glyphs": seen.digest, "described": material.described, "encoder": encoder.digest, "bag": asdict(settings)}

    def make() -> Arrays:
        descriptions = []
        for index in material.described:
            glyphs = seen.glyphs[index]
            embeddings = in_company(encoder.encode(glyphs.patches), settings)
            descriptions.append(Description(glyphs.boxes, embeddings, make_bag(embeddings, settings)))
        return {"matrix": distances(descriptions, descriptions, "bob-local", same=range(len(descriptions)))}

    return material.work.kept("membra", key, make)["matrix"]


def _adapted(material: Material) -> NDArray[np.float64]:
    """Return the distances of membra's encoder after fitting it like `membra adapt`, without labels."""
    if not material.settings.thorough:
        raise Invalid("--quick skips it")
    from membra.train.adapt import MAX_LETTERS_PER_FRAGMENT, fit_encoder
    from membra.train.side_by_side import sample
    from membra.train.training_settings import ADAPTING

    seen, ready, most = material.seen(BASE), Encoder.ready(), MAX_LETTERS_PER_FRAGMENT
    start = hashlib.sha256(ready.onnx).hexdigest()
    key = {"glyphs": seen.digest, "described": material.described, "start": start, "settings": asdict(ADAPTING)}
    path = material.work.path("adapted", key | {"most": most}, ".onnx")
    if not path.exists():
        own = [seen.glyphs[index].patches for index in material.described]
        owners = np.repeat(np.arange(len(own)), [min(most, len(one)) for one in own])
        with material.steps.step(ADAPT_STEP) as within:
            adapted = fit_encoder(
                sample(own, most, ADAPTING.seed), owners, ready.onnx, ADAPTING, material.device, lambda _: within
            )
        atomic_write(path, adapted.onnx)
    return _membra(material, Encoder.open(path), MEMBRA.bag)
