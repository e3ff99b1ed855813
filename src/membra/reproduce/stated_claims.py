"""The claims as the paper states them, and for each the comparisons that decide it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from membra.errors import NotEnough
from membra.judge import printed
from membra.judge.claims import MARGIN, Comparison, Kind
from membra.judge.metrics import measure
from membra.judge.statistics import Runs
from membra.reproduce.experiments import RETRIEVAL, Known, by_seed, matrices_of
from membra.reproduce.material import Material
from membra.reproduce.overlap import cut_runs
from membra.reproduce.settings import ABLATION_WORDS, BASE, DIMENSIONS, FITS, MAIN_WORDS, SPARSITIES, Variant


@dataclass(frozen=True)
class Stated:
    """A claim as the paper states it, and where; `make` computes the comparisons that decide it."""

    text: str
    where: str
    kind: Kind
    make: Callable[[], list[Comparison]]


def stated_claims(material: Material, known: Known) -> list[Stated]:
    """Return every comparison that the paper draws a conclusion from, in its order."""
    compared = _Compared(material, known)
    return [*_of_retrieval(compared), *_of_ablations(compared), _of_overlap(compared)]


def _of_retrieval(compared: "_Compared") -> list[Stated]:
    """Return the claims of table 1."""
    baselines = [name for name in RETRIEVAL if name.startswith(("pool-", "bow-"))]
    same_encoder = [name for name in baselines if name.startswith(("pool-", "bow-centroids"))]

    def better(text: str, ours: str, *others: str) -> Stated:
        return Stated(text, "table 1", "better", partial(compared.methods, ours, others))

    two_stages = Stated(
        f"Two stages find mates as BoB-OT does (within {MARGIN} mAP)",
        "table 1",
        "alike",
        partial(compared.methods, "two-stage", ["bob-transport"]),
    )
    codebooks = Stated(
        "Codebooks of raw patches beat codebooks of centroids",
        "table 1",
        "better",
        compared.codebooks,
    )
    encoder = "The gain is not from the encoder alone: with the same encoder, BoB beats pooling and BoW-centroids"
    return [
        better("Chamfer finds mates better than OT", "bob-chamfer", "bob-transport"),
        better("OT finds mates better than Hungarian", "bob-transport", "bob-hungarian"),
        better("Bags of bags beat the best bag of words of the paper", "bob-chamfer", "bow-raw-chi2"),
        better("Bags of bags beat every baseline", "bob-chamfer", *baselines),
        two_stages,
        codebooks,
        better(encoder, "bob-chamfer", *same_encoder),
    ]


def _of_ablations(compared: "_Compared") -> list[Stated]:
    """Return the claims of tables 3 to 6."""
    return [
        Stated(
            f"K = {MAIN_WORDS} suffices: no other K is better by {MARGIN} mAP or more",
            "table 3",
            "no worse",
            compared.other_words,
        ),
        Stated(
            "d = 128 is best",
            "table 4",
            "better",
            partial(
                compared.variants, DIMENSIONS, ("d = 64", "d = 128", "d = 256"), ABLATION_WORDS, printed.DIMENSIONS
            ),
        ),
        Stated(
            "Sparsity helps",
            "table 5",
            "better",
            partial(compared.variants, SPARSITIES, ("sparsity on", "off"), ABLATION_WORDS, printed.SPARSITY),
        ),
        Stated(
            "Keeping a letter's shape helps",
            "table 6",
            "better",
            partial(compared.variants, FITS[:2], ("shape kept", "stretched"), MAIN_WORDS, printed.FIT),
        ),
    ]


def _of_overlap(compared: "_Compared") -> Stated:
    """Return the claim of table 13."""
    text = "Chamfer leads because fragments overlap only in part: its lead grows when queries are cut"
    return Stated(text, "table 13", "better", compared.lead_when_cut)


@dataclass(frozen=True)
class _Scores:
    """Average precision and hit@1 of every query, (seeds, queries) each."""

    map: NDArray[np.float64]
    hit: NDArray[np.float64]

    def __sub__(self, other: "_Scores") -> "_Scores":
        return _Scores(self.map - other.map, self.hit - other.hit)


@dataclass(frozen=True)
class _Compared:
    """Comparisons of methods and variants on the same queries; rankings are cached for further claims."""

    material: Material
    known: Known
    _kept: dict[str, _Scores] = field(default_factory=dict)

    def methods(self, ours: str, others: Sequence[str]) -> list[Comparison]:
        """Compare one method with each of `others`."""
        return [
            self._comparison(
                f"{RETRIEVAL[ours]} − {RETRIEVAL[other]}",
                self._method(ours),
                self._method(other),
                _printed(printed.RETRIEVAL, ours, other),
            )
            for other in others
        ]

    def codebooks(self) -> list[Comparison]:
        """Compare the mean of all bags of words of raw patches with that of centroids."""
        raw, centroids = self._mean_of("bow-raw"), self._mean_of("bow-centroids")
        paper = [
            np.mean([row["hit@1"] for name, row in printed.RETRIEVAL.items() if kind in name])
            for kind in ("raw", "centroids")
        ]
        return [self._comparison("mean of BoW-raw − mean of BoW-centroids", raw, centroids, float(paper[0] - paper[1]))]

    def other_words(self) -> list[Comparison]:
        """Compare the main K with every other that was run."""
        tried = self.material.settings.words
        others = [count for count in tried if count != MAIN_WORDS]
        if not others or MAIN_WORDS not in tried:
            raise NotEnough("no other K was tried")
        ours = self._variant(self.material.main, MAIN_WORDS)
        return [
            self._comparison(
                f"K = {MAIN_WORDS} − K = {count} (Hungarian)",
                ours,
                self._variant(self.material.main, count),
                _printed(printed.WORDS, str(MAIN_WORDS), str(count)),
            )
            for count in others
        ]

    def variants(
        self, choices: Sequence[Variant], names: Sequence[str], words: int, paper: printed.Printed
    ) -> list[Comparison]:
        """Compare the base variant with each of `choices`; `names` and the rows of `paper` are in the same order."""
        rows, base = list(paper), choices.index(BASE)
        ours = self._variant(BASE, words)
        return [
            self._comparison(
                f"{names[base]} − {names[at]}", ours, self._variant(one, words), _printed(paper, rows[base], rows[at])
            )
            for at, one in enumerate(choices)
            if one is not BASE
        ]

    def lead_when_cut(self) -> list[Comparison]:
        """Compare the lead of Chamfer over OT and Hungarian with cut queries with that with whole ones."""
        if not self.material.settings.cut_letters:
            raise NotEnough("no query was cut")
        counts = sorted(self.material.settings.cut_letters)
        count = counts[min(1, len(counts) - 1)]
        return [
            self._comparison(
                f"lead over {other} at {count} letters − lead when whole",
                self._cut(count, "Chamfer") - self._cut(count, other),
                self._cut(None, "Chamfer") - self._cut(None, other),
            )
            for other in ("OT", "Hungarian")
        ]

    def _comparison(self, name: str, ours: _Scores, theirs: _Scores, paper: float | None = None) -> Comparison:
        sides = np.sign(np.round(ours.map.mean(axis=1) - theirs.map.mean(axis=1), 12))
        return Comparison(
            name,
            ours.map.mean(axis=0) - theirs.map.mean(axis=0),
            ours.hit.mean(axis=0) - theirs.hit.mean(axis=0),
            [self.known.question.joins[query] for query in self.known.question.queries()],
            bool((sides == sides[0]).all()),
            paper,
        )

    def _method(self, name: str) -> _Scores:
        return self._scored(name, lambda: self.known.runs(by_seed(self.material, name)))

    def _variant(self, one: Variant, words: int) -> _Scores:
        def make() -> Runs:
            return self.known.runs(matrices_of(self.material, one, "bob-hungarian", words))

        return self._scored(f"{one} {words}", make)

    def _cut(self, letters: int | None, distance: str) -> _Scores:
        return self._scored(
            f"cut {letters} {distance}", partial(cut_runs, self.material, self.known, letters, distance)
        )

    def _mean_of(self, prefix: str) -> _Scores:
        scores = [self._method(name) for name in RETRIEVAL if name.startswith(prefix)]
        return _Scores(np.mean([one.map for one in scores], axis=0), np.mean([one.hit for one in scores], axis=0))

    def _scored(self, name: str, make: Callable[[], Runs]) -> _Scores:
        if name not in self._kept:
            self._kept[name] = _scores(make())
        return self._kept[name]


def _printed(table: printed.Printed, ours: str, other: str) -> float | None:
    """Return the difference in Hit@1 of two rows of the paper, or None if it does not print both."""
    return table[ours]["hit@1"] - table[other]["hit@1"] if ours in table and other in table else None


def _scores(runs: Runs) -> _Scores:
    single = [[measure(outcome) for outcome in run] for run in runs]
    of = {key: np.array([[scores[key] for scores in run] for run in single]) for key in ("map", "hit@1")}
    return _Scores(of["map"], of["hit@1"])
