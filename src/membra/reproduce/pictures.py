"""The figures of a reproduction with their captions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from membra.compare.distance import costs
from membra.errors import Invalid, MembraError, NotEnough
from membra.find.proposals import Proposal, ProposalSettings, propose_joins
from membra.judge.separation import split_pairs
from membra.judge.tables import Table
from membra.reproduce.experiments import RETRIEVAL, SEPARATED, Known, matrix_of
from membra.reproduce.material import Material
from membra.reproduce.paper_pictures import join_groups, one_fragment
from membra.reproduce.settings import FIRST_SEED, GIVEN
from membra.reproduce.work import Arrays
from membra.show import figures
from membra.show.picture import draw_rankings, thumbnail
from membra.show.strips import encoded

_SHOWN_LETTERS, _SHOWN_QUERIES, _CANDIDATES = 12, 5, 5


@dataclass(frozen=True)
class Drawn:
    """One figure: its files by format (`png`, `svg`), or why it is missing."""

    name: str
    title: str
    caption: str
    files: dict[str, bytes] = field(default_factory=dict)
    missing: str = ""


def draw_all(
    material: Material, known: Known, joins: dict[str, dict[str, str]], tables: dict[str, Table], pairs: Arrays
) -> list[Drawn]:
    """Draw every figure, in the order of the page. One that cannot be drawn has the reason instead."""
    ids = [material.fragments[index].id for index in material.described]
    labels = [joins.get(id, {}).get("join", "") for id in ids]
    proposals = _proposals(material)
    barred = np.eye(len(ids), dtype=bool)
    barred[np.ix_(known.indices, known.indices)] |= known.question.barred
    makers: list[tuple[str, str, str, Callable[[], dict[str, bytes]]]] = [
        (
            "join-groups",
            "Join groups",
            "The paper's first figure for this collection: each row shows fragments of one known join, from the "
            "largest join at the top to a small one at the bottom. The methods see only the writing.",
            lambda: join_groups(material, known),
        ),
        (
            "pipeline",
            "Processing of one fragment",
            "The paper's second figure, step by step: the photograph, its ink, the components that pass the area "
            "limits, their patches, their embeddings (grey is zero, darker positive, lighter negative), and the bag: "
            "for each visual word the letter nearest to it, and its share of all letters.",
            lambda: one_fragment(material),
        ),
        (
            "reconstructions",
            "Reconstructions",
            "Top: letters as cut from the photographs. Bottom: the same letters, reconstructed by the autoencoder from "
            "their embeddings. Strokes and proportions should be preserved; small breaks and ink grain should not.",
            lambda: _reconstructions(material),
        ),
        (
            "distributions",
            "Distances of mates and of strangers",
            "Hatched: pairs of one manuscript. Grey: all other pairs. Both histograms have area 1. The less they "
            "overlap, the easier mates are to find. Values: table 2.",
            lambda: _distributions(material, known),
        ),
        (
            "matched-words",
            "Matched visual words of a pair",
            "Letters of two mates, grouped into visual words and matched one to one (Hungarian), best match first; "
            "the number below each rank is the distance. Good matches show the same letter in the same hand.",
            lambda: _matched_words(material, known),
        ),
        (
            "rankings",
            "Queries and their first candidates",
            "Left: the query. Right: its nearest fragments by BoB-Chamfer. A solid frame and a check denote a mate, a "
            "broken frame and a cross a stranger. Queries are sampled evenly, not by their scores.",
            lambda: _rankings(material, known),
        ),
        (
            "graph",
            "Proposed joins",
            graph_caption(proposals, labels, barred),
            lambda: _graph(proposals, labels, barred),
        ),
        (
            "words",
            "Scores against K",
            "mAP over the whole ranking for each distance, with its 95 % interval by resampling manuscripts; markers "
            "of the same K are shifted slightly. If intervals overlap widely, K hardly matters. Values: table 3.",
            lambda: _words(tables["words"]),
        ),
        (
            "map",
            "Map of the bags",
            "BoB-Chamfer distances, projected to the plane by classical multidimensional scaling. Each marker is a "
            "fragment; lines connect the fragments of a join to their centre. Tight stars far from each other are what "
            "retrieval needs. The plane shows only part of the distances.",
            lambda: _map(material, labels),
        ),
        (
            "bound",
            "The proposition, pair by pair",
            "The share of the bound ε_I + ε_J that each pair of fragments uses: the line in a box is the median, the "
            "box the middle half of the pairs, the whiskers all of them. By the proposition no pair exceeds 1; the "
            "farther below they are, the looser the bound.",
            lambda: _bound(material, pairs),
        ),
        (
            "letters",
            "How many letters a query needs",
            "Hit@1 of BoB-Chamfer with every query cut to the given number of neighbouring letters, with 95 % "
            "intervals; the broken line is the score of whole queries. Values: table 10.",
            lambda: _letters(tables["letters"]),
        ),
    ]
    return [_drawn(*maker, material) for maker in makers]


def _drawn(name: str, title: str, caption: str, make: Callable[[], dict[str, bytes]], material: Material) -> Drawn:
    with material.steps.step(f"drawing: {title.lower()}"):
        try:
            return Drawn(name, title, caption, make())
        except MembraError as reason:
            return Drawn(name, title, caption, missing=str(reason))


def _proposals(material: Material) -> list[Proposal]:
    if len(material.described) < 2:
        return []
    return propose_joins(material.matrix(material.main, FIRST_SEED, "bob-chamfer"), ProposalSettings())


def _reconstructions(material: Material) -> dict[str, bytes]:
    from membra.train.autoencoder import reconstruct

    if not material.described:
        raise NotEnough("no fragment could be described")
    if material.main is GIVEN and not material.decoder:
        raise Invalid("the encoder was given as .onnx, which contains no decoder; give the .safetensors file beside it")
    weights = material.decoder or material.encoder(material.main, FIRST_SEED).with_suffix(".safetensors")
    patches = [material.seen(material.main).glyphs[index].patches for index in material.described]
    indices = np.linspace(0, len(patches) - 1, _SHOWN_LETTERS).astype(int)
    chosen = np.array([patches[at][(37 * (1 + turn)) % len(patches[at])] for turn, at in enumerate(indices)])
    key = {
        "encoder": material.encoder_path(material.main, FIRST_SEED).name,
        "glyphs": material.seen(material.main).digest,
    }
    rebuilt = material.work.kept("rebuilt", key, lambda: {"made": reconstruct(weights, chosen)})["made"]
    return figures.encoded(figures.reconstructions(chosen, rebuilt))


def _distributions(material: Material, known: Known) -> dict[str, bytes]:
    _need(known.why_not)
    found = {}
    for method in SEPARATED:
        try:
            matrix = matrix_of(material, FIRST_SEED, method)[np.ix_(known.indices, known.indices)]
        except MembraError:
            continue  # table 1 has the reason why this method is missing
        intra, inter, _ = split_pairs(matrix, known.question.joins, known.question.barred | known.question.barred.T)
        if len(intra) == 0 or len(inter) == 0:
            raise NotEnough("all pairs are mates or all are strangers, so there is nothing to separate")
        found[RETRIEVAL[method]] = (intra, inter)
    return figures.encoded(figures.distributions(found))


def _matched_words(material: Material, known: Known) -> dict[str, bytes]:
    """Draw the matches of the pair of mates with the median distance: neither the best case nor the worst."""
    _need(known.why_not)
    matrix = material.matrix(material.main, FIRST_SEED, "bob-chamfer")[np.ix_(known.indices, known.indices)]
    intra, _, indices = split_pairs(matrix, known.question.joins, known.question.barred | known.question.barred.T)
    middle = indices[np.argsort(intra, kind="stable")[len(intra) // 2]]
    pair = [known.indices[index] for index in middle]
    bags = material.bags(material.main, FIRST_SEED)
    cost = costs(bags[pair[0]], bags[pair[1]])
    rows, columns = linear_sum_assignment(cost)
    order = np.argsort(cost[rows, columns], kind="stable")[:20]
    embeddings = material.embeddings(material.main, FIRST_SEED)
    lines = []
    for a, b in zip(rows[order], columns[order], strict=True):
        sides = []
        for index, word in zip(pair, (a, b), strict=True):
            bag, patches = bags[index], material.seen(material.main).glyphs[material.described[index]].patches
            members = np.flatnonzero(bag.members == word)
            # The letters nearest to the prototype represent it.
            away = np.linalg.norm(embeddings[index][members] - bag.prototypes[word], axis=1)
            sides.append([patches[member] for member in members[np.argsort(away, kind="stable")[:5]]])
        lines.append((float(cost[a, b]), sides[0], sides[1]))
    names = [material.fragments[material.described[index]].id for index in pair]
    return figures.encoded(figures.matched_words(lines, (names[0], names[1])))


def _rankings(material: Material, known: Known) -> dict[str, bytes]:
    _need(known.why_not)
    matrix = material.matrix(material.main, FIRST_SEED, "bob-chamfer")[np.ix_(known.indices, known.indices)]
    queries = known.question.queries()
    lines = []
    for query in queries[:: max(1, len(queries) // _SHOWN_QUERIES)][:_SHOWN_QUERIES]:
        order = [at for at in np.argsort(matrix[query], kind="stable").tolist() if not known.question.barred[query, at]]
        mates = known.question.mates(query)
        cells = [
            (
                thumbnail(_path(material, known, at)),
                f"{rank}.  {known.question.joins[at]}  {matrix[query, at]:.2f}",
                bool(mates[at]),
            )
            for rank, at in enumerate(order[:_CANDIDATES], start=1)
        ]
        lines.append((thumbnail(_path(material, known, query)), f"query: {known.question.joins[query]}", cells))
    return {"png": encoded(draw_rankings(lines), "PNG", optimize=True)}


def graph_caption(proposals: Sequence[Proposal], labels: Sequence[str], barred: NDArray[np.bool_]) -> str:
    """Return the graph's caption with its number of right edges. `barred` (n, n) pairs do not count."""
    settings = ProposalSettings()
    edges = {(pair.a, pair.b) for proposal in proposals for pair in proposal.pairs}
    known = [(a, b) for a, b in edges if labels[a] and labels[b]]
    counted = [(a, b) for a, b in known if not (barred[a, b] or barred[b, a])]
    right = sum(labels[a] == labels[b] for a, b in counted)
    found = f" Of {len(counted)} edges between labelled fragments, {right} connect mates." if known else ""
    if len(counted) < len(known):
        excluded = len(known) - len(counted)
        found += f" Not counted: {excluded} between fragments that are excluded as each other's answers (dotted)."
    return (
        f"An edge connects two fragments that are among each other's {settings.neighbours} nearest by BoB-Chamfer and "
        f"whose distance is at most {settings.nearness:.2f} times the typical (median) distance of each of them. Each "
        "biconnected component (one marker) is a proposed join. Labels are known joins; a solid line connects mates, a "
        f"broken one strangers.{found}"
    )


def _graph(proposals: Sequence[Proposal], labels: Sequence[str], barred: NDArray[np.bool_]) -> dict[str, bytes]:
    if not proposals:
        raise NotEnough("no two fragments are close enough to be proposed as a join")
    points = figures.laid_out(proposals, len(labels))
    return figures.encoded(figures.similarity_graph(points, proposals, labels, barred))


def _words(table: Table) -> dict[str, bytes]:
    _need(table.missing)
    lines: dict[str, list[tuple[int, float, float, float]]] = {}
    for row in table.rows:
        if "map" in row:
            lines.setdefault(str(row["distance"]), []).append((row["words"], row["map"], *row["ci95"]["map"]))
    if not lines:
        raise NotEnough("table 3 has no scores")
    return figures.encoded(figures.scores_by_words(lines, "mAP"))


def _map(material: Material, labels: Sequence[str]) -> dict[str, bytes]:
    if len(material.described) < 3:
        raise NotEnough("a map needs three fragments, and {count} could be described", count=len(material.described))
    matrix = material.matrix(material.main, FIRST_SEED, "bob-chamfer")
    return figures.encoded(figures.bag_map(figures.in_the_plane(matrix), labels))


def _bound(material: Material, pairs: Arrays) -> dict[str, bytes]:
    if not pairs:
        raise NotEnough("table 8 could not be made")
    shares = {}
    for words in material.settings.words:
        deviation, allowed = np.abs(pairs["components"] - pairs[f"bags_{words}"]), pairs[f"allowed_{words}"]
        shares[words] = np.divide(deviation, allowed, out=np.zeros_like(deviation), where=allowed > 0)
    return figures.encoded(figures.bound(shares))


def _letters(table: Table) -> dict[str, bytes]:
    cut = [row for row in table.rows if str(row["letters"]).startswith("every query cut to")]
    if not cut:
        raise NotEnough("no query could be cut: {why}", why=" ".join(table.notes))
    points = [(int(row["letters"].split()[-1]), row["hit@1"], *row["ci95"]["hit@1"]) for row in cut]
    return figures.encoded(figures.scores_by_letters(points, table.rows[0]["hit@1"]))


def _path(material: Material, known: Known, index: int) -> Path:
    return material.fragments[material.described[known.indices[index]]].path


def _need(why_not: str) -> None:
    if why_not:
        raise NotEnough(why_not)
