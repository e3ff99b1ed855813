"""Search: every method ranks, two-stage search compares only its shortlist, and images not in the collection work."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from membra.compare.distance import chamfer, transport
from membra.compare.methods import METHODS, distances, two_stage
from membra.describe.bag import alone, in_company, make_bag
from membra.describe.encoder import Encoder
from membra.errors import MembraError
from membra.find.search import search, search_together
from membra.store.collection import Collection


@pytest.mark.parametrize("method", [method.name for method in METHODS])
def test_every_method_ranks_everything_but_the_query(method: str, collection: Collection) -> None:
    entries, _ = collection.described()
    query = entries[0].fragment.id
    ranking = search(collection, query, method=method)
    assert (ranking.query, ranking.method) == (query, method)
    assert [hit.rank for hit in ranking.hits] == list(range(1, 12))
    assert {hit.id for hit in ranking.hits} == {entry.fragment.id for entry in entries[1:]}
    assert [hit.distance for hit in ranking.hits] == sorted(hit.distance for hit in ranking.hits)
    assert Path(ranking.hits[0].image).is_file()


def test_default_is_the_recipes_method(collection: Collection) -> None:
    entries, found = collection.described()
    assert search(collection, entries[0].fragment.id).method == collection.recipe.method == "bob-local"
    ranking = search(collection, entries[0].fragment.id, top=3, method="bob-chamfer")
    assert len(ranking.hits) == 3
    nearest = next(index for index, entry in enumerate(entries) if entry.fragment.id == ranking.hits[0].id)
    assert ranking.hits[0].distance == pytest.approx(chamfer(found[0].bag, found[nearest].bag), abs=1e-4)


def test_an_image_from_outside_finds_its_twin(collection: Collection, tmp_path: Path) -> None:
    twin = collection.entries()[4].fragment
    copy = tmp_path / "strange name [1].jpg"
    shutil.copy(twin.path, copy)
    ranking = search(collection, copy, method="bob-chamfer")
    assert ranking.hits[0].id == twin.id
    assert ranking.hits[0].distance == pytest.approx(0, abs=1e-5)


def test_exclude_same_leaves_out_the_querys_own_leaf(collection: Collection) -> None:
    query = collection.entries()[0].fragment
    ranking = search(collection, query.id, exclude_same="join")
    joins = {entry.fragment.id: entry.fragment.columns["join"] for entry in collection.entries()}
    assert ranking.hits
    assert query.columns["join"] not in {joins[hit.id] for hit in ranking.hits}
    with pytest.raises(MembraError, match="no column `shelfmark`"):
        search(collection, query.id, exclude_same="shelfmark")


def test_two_stage_solves_transport_only_on_the_shortlist(collection: Collection) -> None:
    _, found = collection.described()
    bags = [description.bag for description in found]
    near = np.random.default_rng(0).random((12, 12))
    one_way = two_stage(bags, bags, near, same=range(12), shortlist=3)
    listed = np.isfinite(one_way)
    assert listed.sum(axis=1).tolist() == [3] * 12
    assert not listed.diagonal().any()
    row, column = np.argwhere(listed)[0]
    assert one_way[row, column] == pytest.approx(transport(bags[row], bags[column]))
    either = np.isfinite(two_stage(bags, bags, near, same=range(12), shortlist=3, either_way=True))
    np.testing.assert_array_equal(either, listed | listed.T)


def test_one_query_and_the_whole_matrix_agree(collection: Collection) -> None:
    _, found = collection.described()
    for method in ("fused", "bob-local", "bob-chamfer", "bow-raw-chi2", "pool-max-l2"):
        whole = distances(found, found, method, same=range(12))
        alone = distances(found[3:4], found, method, same=[3])
        np.testing.assert_allclose(alone[0], whole[3], atol=1e-5)


def test_unknown_names_are_reported(collection: Collection) -> None:
    with pytest.raises(MembraError, match="no method `cosine`; there are: default, fused, bob-local, bob-chamfer"):
        search(collection, "x", method="cosine")
    with pytest.raises(MembraError, match=r"did you mean images/0003\.jpg"):
        search(collection, "images/0003.jpeg")


def test_too_few_fragments_for_a_vocabulary(collection: Collection, encoder: Encoder, tmp_path: Path) -> None:
    fragment = collection.entries()[0].fragment
    small = Collection.create(tmp_path / "small", encoder=encoder)
    assert search(small, fragment.path, method="bow-centroids-l2").hits == []
    small.add([fragment])
    with pytest.raises(MembraError, match="at least as many different vectors"):
        search(small, fragment.id, method="bow-centroids-l2")
    assert not list(small.path.glob("codebook-*"))


def test_an_image_of_the_collection_by_its_path_is_that_fragment(collection: Collection) -> None:
    twin = collection.entries()[4].fragment
    ranking = search(collection, twin.path)
    assert twin.id not in {hit.id for hit in ranking.hits}
    assert [hit.id for hit in ranking.hits] == [hit.id for hit in search(collection, twin.id).hits]


def test_one_asked_together_is_one_asked(collection: Collection) -> None:
    id = collection.entries()[2].fragment.id
    single, pooled = search(collection, id), search_together(collection, [id])
    assert [hit.id for hit in pooled.hits] == [hit.id for hit in single.hits]
    np.testing.assert_allclose([hit.distance for hit in pooled.hits], [hit.distance for hit in single.hits], rtol=1e-4)


def test_several_are_asked_as_one_bag_of_all_their_letters(collection: Collection, tmp_path: Path) -> None:
    entries, found = collection.described()
    ids = [entries[1].fragment.id, entries[6].fragment.id]
    ranking = search_together(collection, ids, method="bob-chamfer")
    assert ranking.query == f"{ids[0]} + {ids[1]}"
    assert {hit.id for hit in ranking.hits} == {entry.fragment.id for entry in entries} - set(ids)
    settings = collection.recipe.bag
    letters = np.concatenate([alone(found[at].embeddings, settings) for at in (1, 6)])
    bag = make_bag(in_company(letters, settings), settings)
    nearest = next(at for at, entry in enumerate(entries) if entry.fragment.id == ranking.hits[0].id)
    assert ranking.hits[0].distance == pytest.approx(chamfer(bag, found[nearest].bag), abs=1e-4)
    outside = tmp_path / "outside.jpg"
    shutil.copy(entries[6].fragment.path, outside)
    mixed = search_together(collection, [ids[0], outside], method="bob-chamfer")
    assert ids[1] in {hit.id for hit in mixed.hits}  # the photograph from outside is not identified with its fragment


def test_what_shares_a_value_with_any_of_them_is_left_out(collection: Collection) -> None:
    columns = {entry.fragment.id: entry.fragment.columns["join"] for entry in collection.entries()}
    one = next(iter(columns))
    other = next(id for id, join in columns.items() if join != columns[one])
    found = search_together(collection, [one, other], exclude_same="join").hits
    assert found
    assert not {columns[hit.id] for hit in found} & {columns[one], columns[other]}


def test_nothing_cannot_be_asked_together(collection: Collection) -> None:
    with pytest.raises(MembraError, match="no query was given"):
        search_together(collection, [])
