"""Merged collections equal one indexed at once; nothing is duplicated or overwritten."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import factories
from factories import random_encoder, stored
from membra.cli import cli
from membra.errors import MembraError, Refused
from membra.find.search import search
from membra.store import merge as merging
from membra.store.batch import write_batch
from membra.store.collection import Collection
from membra.store.merge import merge


def found(collection: Collection, method: str) -> dict[str, list[tuple[str, float]]]:
    ids = [entry.fragment.id for entry in collection.entries() if not entry.refused]
    return {id: [(hit.id, hit.distance) for hit in search(collection, id, top=9, method=method).hits] for id in ids}


@pytest.mark.parametrize("method", ["bob-local", "bob-chamfer", "fused"])
def test_as_if_indexed_at_once(tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_AT_ONCE", 7)
    ours, theirs = stored(tmp_path / "ours", range(12)), stored(tmp_path / "theirs", range(10, 40))
    theirs.remove(["0020.jpg"])
    steps: list[tuple[int, int]] = []
    done = merge(ours, theirs, progress=lambda *step: steps.append(step))
    assert (done.added, done.known, done.refused) == (27, 2, [])
    assert steps[-1] == (27, 27)
    whole = stored(tmp_path / "whole", [*range(20), *range(21, 40)])
    assert found(ours, method) == found(whole, method)
    assert [replace(e, number=0).fragment.columns for e in ours.entries()] == [
        e.fragment.columns for e in whole.entries()
    ]
    checked = ours.verify()
    assert (checked.wrong, checked.notes, checked.fragments) == ([], [], 39)
    assert theirs.verify().fragments == 29
    one, other = ours.description("0033.jpg"), theirs.description("0033.jpg")
    assert np.array_equal(one.embeddings, other.embeddings)
    assert np.array_equal(one.outline, other.outline)
    assert merge(ours, theirs).known == 29


def test_another_image_of_the_same_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = stored(tmp_path / "ours", range(4))
    outcome = factories.outcome
    monkeypatch.setattr(factories, "outcome", lambda *a: (outcome(*a)[0], "f" * 64, outcome(*a)[2]))
    theirs = stored(tmp_path / "theirs", range(3, 6))
    before = ours.description("0003.jpg").embeddings
    done = CliRunner().invoke(cli, ["merge", str(ours.path), str(theirs.path)])
    assert done.exit_code == 0, done.output
    assert "refused: 0003.jpg: another image of this name" in done.output
    assert "2 fragments added" in done.output
    assert np.array_equal(ours.description("0003.jpg").embeddings, before)


def test_what_was_refused_when_it_was_described_comes_with_its_reason(tmp_path: Path) -> None:
    ours, theirs = stored(tmp_path / "ours", range(2)), stored(tmp_path / "theirs", range(2, 4))
    fragment, digest, _ = factories.outcome(tmp_path, 9)
    with theirs.writing() as writer:
        writer.store(write_batch(theirs.path, [(fragment, digest, Refused("no writing"))]))
    assert merge(ours, theirs).added == 3
    assert [entry.refused for entry in ours.entries()] == ["", "", "", "", "no writing"]


def test_a_file_that_could_not_be_read_is_no_other_image(tmp_path: Path) -> None:
    ours, theirs = stored(tmp_path / "ours", range(4)), stored(tmp_path / "theirs", range(3, 7))
    lost = Refused("{file}: the file is gone", file="x")
    for collection, seed in ((ours, 5), (theirs, 8), (ours, 9), (theirs, 9)):
        fragment = replace(factories.outcome(tmp_path, seed)[0], columns={"note": collection.path.name})
        with collection.writing() as writer:
            writer.store(write_batch(collection.path, [(fragment, "", lost)]))
    stored(ours.path, [8])
    done = merge(ours, theirs)
    assert (done.added, done.known, done.refused) == (3, 3, [])
    entries = {entry.fragment.id: entry for entry in ours.entries()}
    assert [id for id, entry in sorted(entries.items()) if entry.refused] == ["0009.jpg"]
    assert entries["0005.jpg"].fragment.columns == {"note": "ours", "leaf": "2"}
    assert np.array_equal(ours.description("0005.jpg").embeddings, theirs.description("0005.jpg").embeddings)
    assert ours.verify().wrong == []
    assert found(ours, "bob-local") == found(stored(tmp_path / "whole", [*range(7), 8]), "bob-local")
    assert merge(ours, theirs).known == 6


def test_another_recipe_and_the_same_collection_are_reported(tmp_path: Path) -> None:
    ours = stored(tmp_path / "ours", range(2))
    other = Collection.create(tmp_path / "other", encoder=random_encoder(8, seed=1))
    with pytest.raises(MembraError, match="described by another recipe or encoder"):
        merge(ours, other)
    with pytest.raises(MembraError, match="is the same collection"):
        merge(ours, Collection.open(tmp_path / "other" / ".." / "ours"))


def test_it_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_AT_ONCE", 4)
    ours, theirs = stored(tmp_path / "ours", range(3)), stored(tmp_path / "theirs", range(3, 20))

    def stop(done: int, _: int) -> None:
        if done >= 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        merge(ours, theirs, progress=stop)
    assert ours.verify().wrong == []
    done = merge(ours, theirs)
    assert (done.added, done.known) == (9, 8)
    assert found(ours, "bob-local") == found(stored(tmp_path / "whole", range(20)), "bob-local")
    assert merge(ours, theirs).added == 0


def test_after_a_kill_in_the_last_moment_scales_are_brought_up_to_date(tmp_path: Path) -> None:
    """The last transaction has no local scales: searches compute them, as after any bulk insertion."""
    ours = stored(tmp_path / "ours", range(3))
    with ours.writing() as writer:
        writer.store(write_batch(ours.path, [factories.outcome(tmp_path, seed) for seed in range(3, 9)]), scale=False)
    assert found(ours, "bob-local") == found(stored(tmp_path / "whole", range(9)), "bob-local")
