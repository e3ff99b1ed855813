"""A collection of an older revision can be searched, but not added to until described again, which is resumable."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from factories import aged, plate, random_encoder, see_plates, slip
from membra.cli import cli
from membra.describe import recipe as recipes
from membra.describe.bag import BagSettings
from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA, REVISION
from membra.errors import MembraError
from membra.find.search import search
from membra.sources.fragment import fragments
from membra.store import collection as collecting
from membra.store import manifest
from membra.store.collection import Collection
from membra.store.index import index
from membra.store.redescribe import redescribe
from membra.store.writer import orphans

COUNT = 9


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    for seed in range(COUNT):
        (folder / f"{seed}.png").write_bytes(slip(seed))
    return folder


@pytest.fixture
def old(source: Path, encoder: Encoder) -> Collection:
    """Nine photographs as described by an earlier revision, which found other letters."""
    seen = replace(MEMBRA, glyphs=replace(MEMBRA.glyphs, min_area=260))
    again, _ = index(fragments(source), source.parent / "C", recipe=seen, encoder=encoder)
    return aged(again)


def rankings(collection: Collection) -> list[list[tuple[str, float]]]:
    ids = sorted(entry.fragment.id for entry in collection.entries())
    found = [search(Collection.open(collection.path), id).hits for id in ids]
    return [[(hit.id, round(hit.distance, 5)) for hit in hits] for hits in found]


def pending(collection: Collection) -> int:
    with manifest.connect(collection.path) as database:
        (count,) = database.execute("SELECT count(*) FROM pending").fetchone()
    return int(count)


def test_an_older_revision_opens_and_is_searched(old: Collection) -> None:
    assert old.recipe.revision == REVISION - 1
    assert len(old.entries()) == COUNT
    assert len(search(old, "3.png").hits) == COUNT - 1
    assert old.verify().wrong == []
    assert old.remove(["8.png"]) == 1
    for arguments in (["list", "--json"], ["search", "0.png", "--json"], ["propose", "--json"]):
        assert CliRunner().invoke(cli, [arguments[0], str(old.path), *arguments[1:]]).exit_code == 0


def test_it_is_not_added_to_and_images_are_not_compared_with_it(old: Collection, source: Path, tmp_path: Path) -> None:
    shutil.copy(source / "1.png", tmp_path / "outside.png")
    said = (
        f"revision {REVISION - 1} of its recipe, but this version of membra uses revision {REVISION}; describe it again"
    )
    before = old.entries()
    for work in (
        lambda: old.add(fragments(source)),
        lambda: index(fragments(source), old.path),
        lambda: index(fragments(source), old.path, recipe=MEMBRA),
        lambda: search(old, tmp_path / "outside.png"),
    ):
        with pytest.raises(MembraError, match=said):
            work()
    assert old.entries() == before
    assert search(old, source / "1.png").hits == search(old, "1.png").hits  # by its path, one of its own


def test_the_command_says_it_in_one_line_and_offers_what_to_do(old: Collection, source: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from membra.cli import main; main()", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    done = run("index", str(source), "--into", str(old.path), "--workers", "1")
    assert (done.returncode, done.stdout) == (1, "")
    offer = f"membra index --redescribe --into {old.path}"
    assert done.stderr.splitlines()[-1].startswith(f"error: {old.path} was described by revision")
    assert done.stderr.splitlines()[-1].endswith(offer)
    (source / "new.png").write_bytes(slip(20))
    (source / "3.png").write_text("no image any more")
    renewed = run("index", str(source), "--redescribe", "--into", str(old.path), "--workers", "1")
    assert renewed.returncode == 0, renewed.stderr
    assert renewed.stdout.splitlines() == [
        f"{old.path}: 8 fragments described again, by revision {REVISION}",
        f"{old.path}: 1 described (1 with few letters), 8 known already, 1 refused",
    ]
    assert "refused: 3.png" in renewed.stderr
    again = run("index", "--redescribe", "--into", str(old.path))
    assert again.stdout == f"{old.path}: described as this membra describes already\n"
    assert run("index", "--into", str(old.path)).returncode == 2
    assert "is not a collection" in run("index", "--redescribe", "--into", str(source)).stderr


def test_described_anew_it_is_what_it_would_be_now(old: Collection, source: Path, encoder: Encoder) -> None:
    fresh, _ = index(fragments(source), source.parent / "fresh", recipe=MEMBRA, encoder=encoder)
    before = old.entries()
    again, added = index([], old.path, redescribe=True)
    assert (added.described, again.recipe) == (0, fresh.recipe)
    assert [(e.number, e.fragment) for e in again.entries()] == [(e.number, e.fragment) for e in before]
    assert rankings(again) == rankings(fresh)
    assert index(fragments(source), old.path)[1].unchanged == COUNT
    assert again.verify() == replace(again.verify(), wrong=[], notes=[])


class Killed(Exception):
    """Simulates a kill: nothing catches it."""


def stop_after(count: int) -> Callable[[int, int], None]:
    def tick(done: int, _: int) -> None:
        if done == count:
            raise Killed

    return tick


@pytest.fixture
def half_done(old: Collection, monkeypatch: pytest.MonkeyPatch) -> Collection:
    """Redescription stopped after six of nine, two per shard."""
    monkeypatch.setattr(collecting, "BATCH", 2)
    with pytest.raises(Killed):
        index([], old.path, redescribe=True, progress=stop_after(6))
    return Collection.open(old.path)


def go_on(collection: Collection, **options: object) -> list[int]:
    """Finish it; return the reported progress from the first step on."""
    done: list[int] = []
    index([], collection.path, redescribe=True, progress=lambda so_far, _: done.append(so_far), **options)  # type: ignore[arg-type]
    collection = Collection.open(collection.path)
    assert pending(collection) == 0
    assert collection.verify().wrong == collection.verify().notes == []
    return done


def test_stopped_it_is_as_before_and_goes_on(half_done: Collection, source: Path, encoder: Encoder) -> None:
    assert half_done.recipe.revision == REVISION - 1
    assert pending(half_done) == 3
    assert len(search(half_done, "3.png").hits) == COUNT - 1
    found = half_done.verify()
    assert found.wrong == []
    assert found.notes == ["3 parts of it are described anew already; `membra index --redescribe` goes on"]
    assert orphans(half_done.path) == []
    half_done.compact()  # another writer, which removes files that the manifest does not name
    assert pending(half_done) == 3
    assert go_on(half_done) == [7, 8, 9]
    fresh, _ = index(fragments(source), source.parent / "fresh", recipe=MEMBRA, encoder=encoder)
    assert rankings(half_done) == rankings(fresh)


def test_what_changed_meanwhile_is_described_again(half_done: Collection, source: Path) -> None:
    (source / "0.png").write_bytes(slip(30))
    half_done.remove(["2.png"])
    assert go_on(half_done) == [3, 4, 5, 6, 7, 8]  # the shards of 0 and 1, and of 2 and 3, are of no use
    collection = Collection.open(half_done.path)
    assert [entry.fragment.id for entry in collection.entries()] == [f"{n}.png" for n in range(COUNT) if n != 2]
    assert search(collection, "0.png", method="bob-chamfer").hits[0].distance > 0.001


def test_moved_meanwhile_it_is_found_where_it_is(half_done: Collection, source: Path, tmp_path: Path) -> None:
    moved = Path(shutil.move(source, tmp_path / "moved"))
    with half_done.writing() as writer:
        writer.pending(fragments(moved))
    assert go_on(half_done) == [7, 8, 9]
    assert {entry.fragment.path.parent for entry in half_done.entries()} == {moved}


def test_a_damaged_part_is_described_again(half_done: Collection) -> None:
    with manifest.connect(half_done.path) as database:
        names = [name for (name,) in database.execute("SELECT shard FROM pending ORDER BY rowid")]
    content = bytearray((half_done.path / "shards" / names[1]).read_bytes())
    content[-3] ^= 1
    (half_done.path / "shards" / names[1]).unlink()
    (half_done.path / "shards" / names[1]).write_bytes(content)
    (half_done.path / "shards" / names[2]).unlink()
    assert go_on(half_done) == [3, 4, 5, 6, 7, 8, 9]


def test_by_another_recipe_it_begins_anew(half_done: Collection) -> None:
    assert go_on(half_done, pieces="one") == list(range(1, COUNT + 1))
    assert Collection.open(half_done.path).recipe.pieces == "one"


def test_images_that_are_gone_are_reported_before_any_work(old: Collection, source: Path) -> None:
    (source / "4.png").unlink()
    with pytest.raises(MembraError, match="1 images are gone"):
        index([], old.path, redescribe=True)
    old.remove(["4.png"])
    assert len(index([], old.path, redescribe=True)[0].entries()) == COUNT - 1


def test_which_encoder_it_gets(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own, unless that came with an earlier membra; the bag settings are the current ones."""
    few = fragments(source)[:3]
    chosen = aged(index(few, tmp_path / "chosen", encoder=random_encoder(seed=4))[0])
    assert index([], chosen.path, redescribe=True)[0].recipe.encoder == random_encoder(seed=4).digest
    given = index([], chosen.path, redescribe=True, encoder=random_encoder(seed=5))[0]
    assert given.recipe.encoder == random_encoder(seed=5).digest
    shipped = index(few, tmp_path / "shipped", encoder=random_encoder(seed=6))[0]
    monkeypatch.setattr("membra.store.redescribe.SHIPPED", (random_encoder(seed=6).digest, Encoder.ready().digest))
    assert index([], aged(shipped).path, redescribe=True)[0].recipe.encoder == Encoder.ready().digest
    fitted = replace(MEMBRA, bag=BagSettings(words=32))  # as when adapted collections had other bag settings
    adapted = aged(index(few, tmp_path / "adapted", recipe=fitted, encoder=random_encoder(seed=7))[0])
    renewed = index([], adapted.path, redescribe=True)[0].recipe
    assert (renewed.bag, renewed.encoder) == (MEMBRA.bag, random_encoder(seed=7).digest)
    own = index(few, tmp_path / "own", recipe=replace(MEMBRA, bag=BagSettings(words=5)), encoder=random_encoder())[0]
    assert index([], own.path, redescribe=True, pieces="one")[0].recipe.bag.words == 5  # the same revision: as chosen


def test_pieces_that_an_earlier_revision_did_not_see(
    source: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "3.png").write_bytes(plate(1, 2))
    old = aged(index(fragments(source), source.parent / "P", encoder=encoder)[0])
    monkeypatch.setattr(recipes, "see", see_plates)
    again, _ = index([], old.path, redescribe=True)
    names = [f"{n}.png" for n in range(COUNT) if n != 3]
    assert [entry.fragment.id for entry in again.entries()] == [*names, "3.png#1", "3.png#2"]
    back, _ = index([], old.path, redescribe=True, pieces="one")
    assert [entry.fragment.id for entry in back.entries()] == [*names, "3.png"]
    np.testing.assert_array_equal(back.entries()[-1].fragment.columns, {})


def test_a_newer_revision_or_another_eye_is_reported(
    old: Collection, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again, _ = index([], old.path, redescribe=True)
    with monkeypatch.context() as patched:
        patched.setattr(recipes, "eye_of", lambda _: "another")
        with pytest.raises(
            MembraError, match="with another eye than that of this version of membra; describe it again first"
        ):
            again.add(fragments(source))
        assert index([], old.path, redescribe=True)[0].recipe.eye == "another"
    with manifest.connect(old.path, write=True) as database:
        values = {**json.loads(manifest.read_meta(database)["recipe"]), "revision": REVISION + 1, "wonder": 1}
        manifest.write_meta(database, "recipe", json.dumps(values))
    newer = Collection.open(old.path)
    assert len(search(newer, "0.png").hits) == COUNT - 1
    with pytest.raises(MembraError, match=f"by a newer membra .revision {REVISION + 1}.; use that version"):
        newer.add(fragments(source))
    with pytest.raises(MembraError, match="use that version"):
        index([], old.path, redescribe=True)


def test_a_collection_of_an_older_format_too(source: Path, tmp_path: Path) -> None:
    """It is opened, read and described again in one call, once the missing images are removed."""
    shutil.copytree(Path(__file__).parent / "formats" / "3", tmp_path / "C")
    with manifest.connect(tmp_path / "C", write=True) as database:
        values = {**json.loads(manifest.read_meta(database)["recipe"]), "revision": REVISION - 1}
        manifest.write_meta(database, "recipe", json.dumps(values))
    collection = Collection.open(tmp_path / "C")
    with pytest.raises(MembraError, match="6 images are gone"):
        index([], collection.path, redescribe=True)
    collection.remove([entry.fragment.id for entry in collection.entries()])
    again, added = index(fragments(source), collection.path, redescribe=True)
    assert (added.described, again.recipe.revision) == (COUNT, REVISION)


def test_without_being_resumable_nothing_is_kept(old: Collection) -> None:
    with pytest.raises(Killed):
        redescribe(old, random_encoder(seed=3), progress=stop_after(5))
    assert pending(old) == 0
    assert old.verify().notes == []
