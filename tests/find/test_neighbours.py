"""The neighbour graph equals single searches, whether computed at once, in parts, or after changes."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from factories import aged, stored
from membra.cli import cli
from membra.compare.local_scaling import REFERENCES
from membra.errors import MembraError
from membra.find import comparing, listing, pruned
from membra.find import neighbours as finding
from membra.find.neighbours import Neighbours, current, neighbours, neighbours_of
from membra.find.search import search_many
from membra.store import neighbour_lists as keeping
from membra.store import open_files, verify, writer
from membra.store.collection import Collection
from membra.store.neighbour_lists import KNOWN, read_lists, write_lists

SEEDS = range(70)
TOP = 6


def name(seed: int) -> str:
    return f"{seed:04d}.jpg"


def searched(collection: Collection, method: str = "default", top: int = TOP) -> dict[str, list[tuple[str, float]]]:
    """Return the results of single exact searches."""
    ids = [entry.fragment.id for entry in collection.entries()]
    found = search_many(collection, ids, top=top, method=method)
    return {one.query: [(hit.id, hit.distance) for hit in one.hits] for one in found}


def listed(collection: Collection, found: Neighbours) -> dict[str, list[tuple[str, float]]]:
    ids = {entry.number: entry.fragment.id for entry in collection.entries()}
    lists = found.lists
    scores, top = lists.scores(), min(TOP, len(lists) - 1)
    return {
        ids[number]: [(ids[other], score) for other, score in zip(which, own, strict=True)]
        for number, which, own in zip(
            lists.numbers.tolist(), lists.which[:, :top].tolist(), scores[:, :top].tolist(), strict=True
        )
    }


@pytest.fixture
def grown(tmp_path: Path) -> Collection:
    """70 fragments added in parts, two of them removed."""
    collection = stored(tmp_path / "C", SEEDS)
    collection.remove([name(3), name(40)])
    return collection


@pytest.mark.parametrize("method", ["default", "bob-local", "bob-chamfer"])
def test_the_same_as_single_searches_to_the_last_digit(grown: Collection, method: str) -> None:
    found = neighbours(grown, top=TOP, method=method, threads=2)
    assert found.compared == 68
    assert listed(grown, found) == searched(grown, method)
    again = neighbours(grown, top=TOP, method=method)
    assert again.compared == 0
    assert listed(grown, again) == listed(grown, found)
    assert grown.verify().notes == []


def test_of_some_alone(grown: Collection) -> None:
    some = np.array([entry.number for entry in grown.entries()], np.int32)[::7]
    lists = neighbours_of(grown, some, top=TOP, threads=2)
    found, truth = listed(grown, Neighbours(lists, 0, False)), searched(grown)
    ids = [entry.fragment.id for entry in grown.entries() if entry.number in some]
    assert [found[id] for id in ids] == [truth[id] for id in ids]
    assert read_lists(grown.path) is None


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_fewer_fragments_than_asked_for(tmp_path: Path, count: int) -> None:
    collection = stored(tmp_path / "C", range(count))
    assert listed(collection, neighbours(collection, top=TOP)) == searched(collection)


def test_a_processor_without_products_of_bytes_finds_the_same(
    grown: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = searched(grown)
    for module in (comparing, pruned):
        monkeypatch.setattr(module, "int8_supported", lambda: False)
    assert listed(grown, neighbours(grown, top=TOP)) == expected


def test_copies_of_one_image_are_in_the_order_of_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With more copies than a list has room for, those with the smallest numbers are listed."""
    import factories

    drawn = factories.description
    monkeypatch.setattr(factories, "description", lambda seed: drawn(7 if seed % 2 else seed))
    collection = stored(tmp_path / "C", SEEDS)
    assert listed(collection, neighbours(collection, top=TOP)) == searched(collection)


@pytest.mark.parametrize("references", [REFERENCES, 25])
def test_changes_give_what_making_it_at_once_gives(
    grown: Collection, references: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all fragments as references, and with a sample in which additions replace some references."""
    for module in (writer, open_files, verify):
        monkeypatch.setattr(module, "REFERENCES", references)
    neighbours(grown, top=TOP)
    steps: list[Callable[[], object]] = [
        lambda: stored(grown.path, range(70, 74)),
        lambda: grown.remove([name(seed) for seed in (0, 11, 71)]),
        lambda: stored(grown.path, [8, 9]),  # described again: new numbers
        lambda: grown.compact(),
        lambda: stored(grown.path, range(80, 120)),
    ]
    for step in steps:
        step()
        found = neighbours(grown, top=TOP)
        assert found.begun_before
        assert found.lists.finished()
        assert listed(grown, found) == searched(grown)
        assert current(grown, found.lists)


def test_little_is_compared_when_little_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (writer, open_files, verify):
        monkeypatch.setattr(module, "REFERENCES", 30)
    collection = stored(tmp_path / "C", range(200), size=50)
    neighbours(collection, top=TOP)
    collection = stored(collection.path, range(300, 304))
    found = neighbours(collection, top=TOP)
    assert 4 <= found.compared <= 40
    assert listed(collection, found) == searched(collection)


def test_another_number_of_neighbours(grown: Collection) -> None:
    neighbours(grown, top=TOP)
    assert neighbours(grown, top=TOP - 2).compared == 0
    more = neighbours(grown, top=TOP + 2)
    assert more.compared == 68
    assert more.lists.top == TOP + 2
    assert listed(grown, more) == searched(grown)


def stop_after(writes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """End the run after `writes` checkpoints, which are written after every step."""
    monkeypatch.setattr(finding, "_KEPT_EVERY", 0.0)
    monkeypatch.setattr(finding, "_WRITING", 0)
    monkeypatch.setattr(finding, "_AT_ONCE", 4)
    left = [writes]

    def write(path: Path, lists: keeping.NeighbourLists) -> None:
        write_lists(path, lists)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(finding, "write_lists", write)


@pytest.mark.parametrize("writes", [1, 4, 9, 15])
def test_it_goes_on_where_it_was(grown: Collection, writes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted while comparing, and while solving."""
    with monkeypatch.context() as patch:
        stop_after(writes, patch)
        with pytest.raises(KeyboardInterrupt):
            neighbours(grown, top=TOP, threads=1)
    kept = read_lists(grown.path)
    assert kept is not None
    assert not kept.finished()
    assert int((kept.stages == KNOWN).sum()) == min(4 * writes, 68)
    found = neighbours(grown, top=TOP, threads=1)
    assert found.compared == 68 - min(4 * writes, 68)
    assert listed(grown, found) == searched(grown)


@pytest.mark.parametrize("writes", [3, 9, 12])
def test_it_goes_on_although_the_collection_has_changed(
    grown: Collection, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first run and then an update are interrupted, with changes before each is resumed."""
    for part in ([50, 51, 90], [52, 91, 92]):
        with monkeypatch.context() as patch:
            stop_after(writes if part[0] == 50 else 1, patch)
            with pytest.raises(KeyboardInterrupt):
                neighbours(grown, top=TOP, threads=1)
        stored(grown.path, part)
        grown.remove([name(part[0] + 10)])
    found = neighbours(grown, top=TOP, threads=1)
    assert found.begun_before
    assert listed(grown, found) == searched(grown)


def test_fragments_that_go_while_it_is_made(grown: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lists are of the state at the start; shards that are replaced meanwhile stay readable."""
    expected = searched(grown)
    ids = {entry.number: entry.fragment.id for entry in grown.entries()}
    done: list[int] = []

    def progress(_: int, __: int) -> None:
        if not done:
            other = Collection.open(grown.path)
            done.append(other.remove([name(5), name(6)]))
            other.compact()

    monkeypatch.setattr(finding, "_AT_ONCE", 4)
    found = neighbours(grown, top=TOP, progress=progress)
    first = found.lists.which[:, :TOP]
    assert {ids[int(n)]: [ids[w] for w in own] for n, own in zip(found.lists.numbers, first.tolist(), strict=True)} == {
        id: [other for other, _ in own] for id, own in expected.items()
    }
    assert not current(grown, found.lists)
    assert listed(grown, neighbours(grown, top=TOP)) == searched(grown)


def test_damaged_half_written_or_of_another_recipe_is_made_anew(grown: Collection) -> None:
    expected = listed(grown, neighbours(grown, top=TOP))
    folder = grown.path / keeping.FOLDER

    def file() -> Path:
        return next(folder.glob("lists-*"))

    content = bytearray(file().read_bytes())
    content[len(content) // 2] ^= 1
    harms: list[Callable[[], object]] = [
        lambda: file().write_bytes(bytes(content)),
        lambda: file().write_bytes(file().read_bytes()[:-100]),
        lambda: file().unlink(),
        lambda: (folder / "lists.json").write_text('["nothing"'),
    ]
    for harm in harms:
        harm()
        (folder / ".lists-x.safetensors.1.part").write_bytes(b"half")
        assert any("neighbours/lists is damaged" in note for note in grown.verify().notes)
        assert grown.verify().wrong == []
        found = neighbours(grown, top=TOP)
        assert not found.begun_before
        assert listed(grown, found) == expected
        assert sorted(one.name for one in folder.iterdir()) == sorted([file().name, "lists.json", "lock"])
    other = aged(grown)
    assert not neighbours(other, top=TOP).begun_before


def test_a_full_disk_leaves_what_was_kept(grown: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    neighbours(grown, top=TOP)
    before = sorted((grown.path / keeping.FOLDER).iterdir())
    stored(grown.path, [90])

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(keeping, "write_tensors", full)
        with pytest.raises(OSError, match="No space left"):
            neighbours(grown, top=TOP)
    assert sorted((grown.path / keeping.FOLDER).iterdir()) == before
    assert neighbours(grown, top=TOP).begun_before


def test_others_that_write_them(grown: Collection) -> None:
    with keeping.making_lists(grown.path):
        with pytest.raises(MembraError, match=r"another membra .* is writing to"):
            neighbours(grown, top=TOP)
        found = neighbours(grown, top=TOP, keep=False)
    assert listed(grown, found) == searched(grown)
    assert read_lists(grown.path) is None


def test_a_method_that_has_none(grown: Collection) -> None:
    with pytest.raises(MembraError, match="neighbours are not available for `fused`, only for bob-local, bob-chamfer"):
        neighbours(grown, method="fused")


def test_entries_below_a_limit_are_enough(grown: Collection) -> None:
    """`carried_over` keeps no entry and sets no limit above its true value."""
    lists = neighbours(grown, top=TOP, method="bob-chamfer").lists
    scales = np.random.default_rng(0).uniform(0.9, 1.1, len(lists))
    new = listing.carried_over(lists, lists.numbers, lists.checks, scales)
    every = neighbours(grown, top=len(lists) - 1, method="bob-chamfer").lists
    truth = replace(every, scales=scales)
    scores = truth.scores()
    for row in np.flatnonzero(new.stages == KNOWN).tolist():
        unlisted = ~np.isin(truth.which[row], new.which[row]) & (truth.which[row] > 0)
        again = np.isin(truth.which[row], new.numbers[new.stages != KNOWN])
        assert scores[row][unlisted & ~again].min(initial=np.inf) >= new.limits[row]


def test_command(grown: Collection) -> None:
    done = CliRunner().invoke(cli, ["neighbours", str(grown.path), "--top", str(TOP), "--workers", "1"])
    assert done.exit_code == 0, done.output
    assert "the 6 nearest of each of 68 fragments; 68 newly compared" in done.output
    done = CliRunner().invoke(cli, ["neighbours", str(grown.path), "--json"])
    found = json.loads(done.stdout)
    assert found["fragments"] == 68
    assert found["top"] == 20
    assert found["current"] is True
