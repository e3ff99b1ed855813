"""Table 19: blurred, faded, grainy and rotated queries against the unchanged photographs."""

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.compare.codebook import compare_histograms
from membra.compare.distance import chamfer
from membra.describe.bag import make_bag
from membra.describe.encoder import Encoder
from membra.describe.recipe import Recipe
from membra.judge.evaluate import outcomes
from membra.judge.statistics import Runs
from membra.judge.tables import SHORT_SCORES, Contender, Table, score_rows
from membra.reproduce.experiments import LEADERS, Known, empty_table, text_column, why_left_out, without
from membra.reproduce.ink import glyphs_of
from membra.reproduce.material import Material
from membra.reproduce.settings import FIRST_SEED
from membra.reproduce.work import Arrays
from membra.scribes.film import grain
from membra.scribes.wear import fading
from membra.sources.fragment import Fragment
from membra.sources.photograph import read_photograph

DEGRADED_STEP = "damaging queries"
Picture = NDArray[np.uint8]  # (h, w, 3)
Damage = Callable[[Picture, float, np.random.Generator], Picture]  # the letter height in px, and a random generator


def degraded(material: Material, known: Known) -> Table:
    """Compare each damage at two strengths with no damage, by BoB-Chamfer and the paper's best bag of words."""
    columns = [text_column("damage"), text_column("method"), *SHORT_SCORES]
    table = empty_table(material, known, 19, "degraded", "Blurred, faded, grainy and rotated queries", columns)
    if why := why_left_out(material, known):
        return without(table, why)
    contenders: list[Contender] = []
    references: list[int | None] = []
    with material.steps.step(DEGRADED_STEP) as within:
        for done, name in enumerate(DAMAGES, start=1):
            rows = _rows(material, known, name)
            for at, (method, label) in enumerate(LEADERS.items()):
                contenders.append(Contender({"damage": name, "method": label}, _runs(known, rows[method])))
                references.append(at)
            within(done, len(DAMAGES))
    return replace(
        table,
        rows=score_rows(contenders, references),
        reading="How robust each method is to another photograph: every query is degraded and described again, the "
        "gallery stays unchanged. A query without any letters left counts as a miss.",
        notes=[
            "Blur is in letter heights. Fading and grain are those of membra.scribes. Encoder and codebook of seed "
            f"{FIRST_SEED}."
        ],
    )


def blurred(strength: float) -> Damage:
    return lambda picture, height, draw: np.asarray(cv2.GaussianBlur(picture, (0, 0), strength * height), np.uint8)


def faded(strength: float) -> Damage:
    def damage(picture: Picture, height: float, draw: np.random.Generator) -> Picture:
        ground = np.median(picture, axis=(0, 1))
        left = 1 - fading((picture.shape[0], picture.shape[1]), height, draw, strength)[..., None]
        return _as_bytes(ground + (picture - ground) * left)

    return damage


def grainy(times: float) -> Damage:
    """Add grain `times` as strong as the strongest film grain."""

    def damage(picture: Picture, height: float, draw: np.random.Generator) -> Picture:
        added = grain((picture.shape[0], picture.shape[1]), draw, 1.0)[..., None]
        return _as_bytes(picture + 255 * times * added)

    return damage


def turned(degrees: float) -> Damage:
    def damage(picture: Picture, height: float, draw: np.random.Generator) -> Picture:
        high, wide = picture.shape[:2]
        turn = cv2.getRotationMatrix2D((wide / 2, high / 2), degrees, 1.0)
        ground = np.median(picture, axis=(0, 1)).tolist()
        return np.asarray(cv2.warpAffine(picture, turn, (wide, high), borderValue=ground), np.uint8)

    return damage


DAMAGES: dict[str, Damage] = {
    "none": lambda picture, height, draw: picture,
    "blur 0.05": blurred(0.05),
    "blur 0.1": blurred(0.1),
    "fading 0.6": faded(0.6),
    "fading 1": faded(1.0),
    "grain × 2": grainy(2.0),
    "grain × 5": grainy(5.0),
    "turn 3°": turned(3.0),
    "turn 10°": turned(10.0),
}


def _rows(material: Material, known: Known, name: str) -> Arrays:
    """Return per method the distances (q, m) of damaged queries to described fragments; infinite without letters."""
    queries = [known.indices[query] for query in known.question.queries()]
    settings = material.bag_settings(FIRST_SEED)
    key = material.recipe_key(material.main, FIRST_SEED) | {
        "bag": asdict(settings),
        "ink": material.ink_key(),
        "queries": queries,
        "damage": name,
    }

    def make() -> Arrays:
        encoder = Encoder.open(material.encoder(material.main, FIRST_SEED))
        bags, vocabulary = material.bags(material.main, FIRST_SEED), material.vocabulary(FIRST_SEED, "raw")
        gallery = material.histograms(FIRST_SEED, "raw")
        found: Arrays = {method: np.full((len(queries), len(bags)), np.inf) for method in LEADERS}
        glyphs = material.seen(material.main).glyphs
        indices = [material.described[index] for index in queries]
        heights = [float(np.median(glyphs[at].boxes[:, 3])) for at in indices]
        work = [(material.fragments[at], height, at) for at, height in zip(indices, heights, strict=True)]
        cut = partial(_patches, name=name, recipe=material.one_piece())
        for row, patches in enumerate(material.pool.each(cut, work)):
            if len(patches):
                embeddings = encoder.encode(patches)
                bag = make_bag(embeddings, settings)
                found["bob-chamfer"][row] = [chamfer(bag, other) for other in bags]
                own = vocabulary.histogram(embeddings, np.ones(len(embeddings)))
                found["bow-raw-chi2"][row] = compare_histograms(own[None], gallery, "chi2")[0]
        return found

    return material.work.kept("degraded", key, make)


def _patches(work: tuple[Fragment, float, int], *, name: str, recipe: Recipe) -> Picture:
    """Damage a photograph, given with letter height and index, and cut its glyphs (n, 64, 64); runs in a worker."""
    fragment, height, at = work
    picture = DAMAGES[name](read_photograph(fragment.path), height, np.random.default_rng((FIRST_SEED, at)))
    return glyphs_of(picture, recipe).patches


def _runs(known: Known, rows: NDArray[np.float64]) -> Runs:
    matrix = np.full((len(known.indices), len(known.indices)), np.inf)
    matrix[known.question.queries()] = rows[:, known.indices]
    return [outcomes(known.question, matrix)]


def _as_bytes(values: NDArray[np.float64]) -> Picture:
    return np.asarray(np.clip(np.rint(values), 0, 255), np.uint8)
