"""Table 11: the paper's method beside its peers, on the same ink and the same queries."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

import numpy as np
from numpy.typing import NDArray

from membra.compare.encodings import EncodingSettings, Vectors, cosine_distances, fisher, mean_pool, vlad, whitened
from membra.compare.methods import distances
from membra.compare.rerank import expanded, graph_reranked
from membra.describe.bag import BagSettings, in_company, make_bag
from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA, Description
from membra.errors import Invalid
from membra.files import atomic_write
from membra.judge.tables import SCORES, Contender, Table, score_rows
from membra.reproduce.experiments import Known, by_seed, contend, empty_table, text_column, without
from membra.reproduce.ink import ink_of
from membra.reproduce.material import Material
from membra.reproduce.settings import BASE, FIRST_SEED
from membra.reproduce.work import Arrays
from membra.see.sift import SiftSettings, sift

KEYPOINTS_STEP, PEERS_STEP, ADAPT_STEP = "describing keypoints", "comparing peers", "adapting membra's encoder"
# Chosen on Latin manuscripts; what they do on Hebrew ones, and others on Latin ones, is in docs/claims.md.
SIFT = SiftSettings()
ENCODING = EncodingSettings()
_DESCRIPTORS = 1_000_000  # of all fragments together: half a gigabyte


class Keypoints:
    """Keypoint encodings of the described fragments; the descriptors are made when the first of them is."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self._found: list[Vectors] = []

    def vectors(self, kind: str, seed: int = FIRST_SEED) -> NDArray[np.float64]:
        """`vlad`, `fisher` or `mean` of each fragment, (m, D), not whitened; kept by ink and settings."""
        settings = replace(ENCODING, seed=seed)
        makers: dict[str, Callable[[], NDArray[np.float64]]] = {
            "vlad": lambda: vlad(self._descriptors(), settings),
            "fisher": lambda: fisher(self._descriptors(), settings),
            "mean": lambda: mean_pool(self._descriptors()),
        }
        before = asdict(replace(settings, whiten=0, shrinkage=0.0))  # whitening comes after what is kept
        key = self.material.ink_key() | {"sift": asdict(SIFT), "encoding": before, "kind": kind}
        return self.material.work.kept("keypoints", key, lambda: {"vectors": makers[kind]()})["vectors"]

    def whitened(self, kind: str, seed: int = FIRST_SEED) -> NDArray[np.float64]:
        return whitened(self.vectors(kind, seed), ENCODING)

    def _descriptors(self) -> list[Vectors]:
        if not self._found:
            material = self.material
            most = min(SIFT.max_descriptors, max(200, _DESCRIPTORS // len(material.described)))
            with material.steps.step(KEYPOINTS_STEP) as within:
                for done, index in enumerate(material.described, start=1):
                    ink = ink_of(material.fragments[index], material.one_piece())
                    self._found.append(sift(ink, replace(SIFT, max_descriptors=most)))
                    within(done, len(material.described))
        return self._found


def peers(material: Material, known: Known) -> Table:
    """BoB-Chamfer, keypoint encodings with and without a last step, and membra's own encoder, ready and adapted."""
    table = empty_table(
        material, known, 11, "peers", "Peers on the same ink and the same queries", [text_column("method"), *SCORES]
    )
    if known.why_not:
        return without(table, known.why_not)
    points, seeds = Keypoints(material), material.seeds(material.main)
    barred = np.eye(len(material.described), dtype=bool)
    barred[np.ix_(known.indices, known.indices)] |= known.question.barred
    methods: list[tuple[str, str, Callable[[], Sequence[NDArray[np.float64]]]]] = [
        ("bob-chamfer", "BoB-Chamfer (the paper)", lambda: by_seed(material, "bob-chamfer")),
        ("sift-mean", "mean RootSIFT", lambda: [cosine_distances(points.vectors("mean"))]),
        ("sift-vlad-plain", "SIFT-VLAD", lambda: [cosine_distances(points.vectors("vlad", s)) for s in seeds]),
        ("sift-vlad", "SIFT-VLAD, whitened", lambda: [cosine_distances(points.whitened("vlad", s)) for s in seeds]),
        ("sift-fisher", "SIFT-Fisher, whitened", lambda: [cosine_distances(points.whitened("fisher"))]),
        (
            "sift-vlad-expanded",
            "SIFT-VLAD, whitened, query expansion",
            lambda: [expanded(points.whitened("vlad", s), barred) for s in seeds],
        ),
        (
            "sift-vlad-graph",
            "SIFT-VLAD, whitened, graph re-ranking",
            lambda: [graph_reranked(1 - cosine_distances(points.whitened("vlad", s)), barred) for s in seeds],
        ),
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
        reading="Would something else have done as well? SIFT on the very ink that the paper's method sees, pooled by "
        "the field's usual encodings, and membra's own encoder on the very letters; each against BoB-Chamfer.",
        notes=[
            "Settings of SIFT, VLAD and Fisher vectors were chosen on other manuscripts, in Latin script. "
            "Codebooks, mixtures and whitening are fitted to this collection without its labels, as BoW's codebook is. "
            f"Whitening keeps {ENCODING.whiten} dimensions, and at most a quarter as many as there are fragments.",
            "Query expansion and graph re-ranking use no pair that may not answer. membra's encoder knows letters of "
            "many manuscripts (docs/encoder.md), perhaps of these.",
        ],
    )


def _membra(material: Material, encoder: Encoder, settings: BagSettings) -> NDArray[np.float64]:
    """`bob-local` distances (m, m) of the very letters that the other methods see, by an identity encoder."""
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
    if not material.settings.thorough:
        raise Invalid("it is left out by --quick")
    from membra.describe.graph import identity_graph, weights_of
    from membra.train.autoencoder import pick_device
    from membra.train.identity import IdentitySettings, train_identity

    seen, ready, settings = material.seen(BASE), Encoder.ready(), IdentitySettings()
    start = hashlib.sha256(ready.onnx).hexdigest()
    key = {"glyphs": seen.digest, "described": material.described, "start": start, "settings": asdict(settings)}
    path = material.work.path("adapted", key, ".onnx")
    if not path.exists():
        patches = [seen.glyphs[index].patches for index in material.described]
        owners = np.repeat(np.arange(len(patches)), [len(one) for one in patches])
        with material.steps.step(ADAPT_STEP) as within:
            weights = train_identity(
                np.concatenate(patches),
                owners,
                settings,
                start=weights_of(ready.onnx),
                device=pick_device(material.device),
                progress=within,
            )
        atomic_write(path, identity_graph(weights))
    return _membra(material, Encoder.open(path), MEMBRA.bag)
