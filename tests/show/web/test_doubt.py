"""Likelihoods are never learnt from or shown for fragments that may have no writing."""

from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from factories import outcome, random_encoder
from membra.describe.recipe import Description
from membra.show.holding import Holding
from membra.show.web.candidates import _learn, candidates_page, likelihood_of
from membra.show.web.desk import Desk
from membra.store.batch import write_batch
from membra.store.collection import Collection
from membra.store.verdicts import Verdicts


def filled(path: Path, sure: range, doubtful: range) -> Path:
    """Store fragments with a known join by hand; the doubtful ones are labelled as one manuscript."""
    collection = Collection.create(path, encoder=random_encoder(8))
    made = []
    for seed in (*sure, *doubtful):
        fragment, digest, description = outcome(path.parent, seed)
        assert isinstance(description, Description)
        join = "none" if seed in doubtful else str(seed % 3)
        note = "doubtful" if seed in doubtful else ""
        made.append((replace(fragment, columns={"join": join}), digest, replace(description, note=note)))
    with collection.writing() as writer:
        writer.store(write_batch(path, made))
    return path


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    return filled(tmp_path / "mixed", range(30), range(30, 42))


@pytest.fixture
def desk(mixed: Path, tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(mixed, tmp_path / "cache")
    for _ in range(100):
        if not likelihood_of(desk)[1]:
            break
    yield desk
    desk.close()


def learnt(path: Path) -> tuple[float, ...]:
    return astuple(_learn(Holding(Collection.open(path)), Verdicts.open(path).standing(), lambda: None))


def test_nothing_is_learnt_from_them(mixed: Path, tmp_path: Path) -> None:
    alone = filled(tmp_path / "alone", range(30), range(0))
    expected = learnt(alone)
    assert learnt(mixed) == pytest.approx(expected)
    verdicts = Verdicts.open(mixed)
    for seed in range(31, 42):
        verdicts.give("0030.jpg", f"{seed:04d}.jpg", "join", by="Rivka")
    assert learnt(mixed) == pytest.approx(expected)


def test_nothing_is_said_of_them(desk: Desk) -> None:
    page = candidates_page(desk, desk.item("0000.jpg"))
    assert page.calibration is not None
    for one in page.candidates:
        assert (one.likelihood is None) == ("doubtful" in one.card.note)
    assert any(one.likelihood is None for one in page.candidates)
    assert {one.likelihood for one in candidates_page(desk, desk.item("0030.jpg")).candidates} == {None}
