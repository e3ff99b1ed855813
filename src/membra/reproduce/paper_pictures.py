"""The paper's two figures on this collection: its join groups, and the processing of one fragment."""

from collections import Counter

import cv2
import numpy as np
from numpy.typing import NDArray

from membra.describe.keypoints import ink_of
from membra.errors import NotEnough
from membra.reproduce.experiments import Known
from membra.reproduce.material import Material
from membra.reproduce.settings import FIRST_SEED
from membra.show import figures
from membra.show.paper_figures import Steps, join_sheet, pipeline
from membra.show.picture import thumbnail
from membra.sources.photograph import read_photograph

_JOINS, _FRAGMENTS = 3, 5  # rows of the sheet, as in the paper, and fragments per row
_SIDE = 900  # px, the longer side of a photograph in the pipeline


def join_groups(material: Material, known: Known) -> dict[str, bytes]:
    """Draw three joins, evenly spaced from the largest to the smallest with at least two fragments."""
    counts = Counter(known.question.joins)
    names = [name for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if count > 1]
    if not names:
        raise NotEnough("no join has two described fragments")
    chosen = [names[at] for at in sorted({*np.linspace(0, len(names) - 1, _JOINS).astype(int).tolist()})]
    rows = []
    for name in chosen:
        members = [at for at, join in enumerate(known.question.joins) if join == name][:_FRAGMENTS]
        paths = [material.fragments[material.described[known.indices[at]]].path for at in members]
        rows.append((f"{name}: {len(paths)} of {counts[name]} fragments", [thumbnail(path) for path in paths]))
    return figures.encoded(join_sheet(rows))


def one_fragment(material: Material) -> dict[str, bytes]:
    """Draw the described fragment with the median number of letters: neither the best case nor the worst."""
    if not material.described:
        raise NotEnough("no fragment could be described")
    order = sorted(range(len(material.described)), key=lambda at: (material.glyph_counts[material.described[at]], at))
    index = order[len(order) // 2]
    fragment = material.fragments[material.described[index]]
    glyphs = material.seen(material.main).glyphs[material.described[index]]
    embeddings = material.embeddings(material.main, FIRST_SEED)[index]
    bag = material.bags(material.main, FIRST_SEED)[index]
    assert bag.members is not None
    words = []
    for word in np.argsort(-bag.weights, kind="stable"):
        members = np.flatnonzero(bag.members == word)
        away = np.linalg.norm(embeddings[members] - bag.prototypes[word], axis=1)
        words.append((glyphs.patches[members[away.argmin()]], float(bag.weights[word])))
    photograph = read_photograph(fragment.path)
    scale = min(1.0, _SIDE / max(photograph.shape[:2]))
    boxes = np.rint(glyphs.boxes * scale).astype(np.int32)
    steps = Steps(
        fragment.id,
        _shrunk(photograph, scale),
        _shrunk(ink_of(fragment, material.settings.recipe), None),
        boxes,
        glyphs.patches,
        embeddings,
        words,
    )
    return figures.encoded(pipeline(steps))


def _shrunk(picture: NDArray[np.uint8], scale: float | None) -> NDArray[np.uint8]:
    """Shrink by `scale`, or to a longer side of `_SIDE`."""
    scale = min(1.0, _SIDE / max(picture.shape[:2])) if scale is None else scale
    size = (max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale)))
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)
