"""Adapting: the collection changes only at the end, in one step; a collection that cannot adapt gets an error."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path

import numpy as np
import pytest

from membra.describe.bag import BagSettings
from membra.describe.encoder import Encoder
from membra.describe.recipe import DOUBTFUL, MEMBRA, Description
from membra.describe.workers import Workers
from membra.errors import MembraError
from membra.find.search import search
from membra.progress import Progress
from membra.show.holding import Holding
from membra.sources.fragment import Fragment, fragments
from membra.store import collection as collecting
from membra.store import manifest
from membra.store.batch import Batch
from membra.store.collection import Collection
from membra.store.index import index

torch = pytest.importorskip("torch", reason="torch is in the extra [train]")

from membra.train import adapt as adapting  # noqa: E402
from membra.train import identity, resume  # noqa: E402
from membra.train.adapt import adapt, train_on  # noqa: E402
from membra.train.identity import IdentitySettings  # noqa: E402
from membra.train.resume import describe_anew, training_sample, unfinished  # noqa: E402

BRIEF = IdentitySettings(epochs=0.1, min_letters=600, batch=64)


@pytest.fixture(scope="module")
def indexed(drawn: Path, tmp_path_factory: pytest.TempPathFactory) -> Collection:
    collection, _ = index(fragments(drawn), tmp_path_factory.mktemp("ready") / "C", recipe=MEMBRA, encoder=None)
    return collection


@pytest.fixture
def own(indexed: Collection, tmp_path: Path) -> Collection:
    shutil.copytree(indexed.path, tmp_path / "own")
    return Collection.open(tmp_path / "own")


def described(collection: Collection) -> list[Description]:
    holding = Holding(collection)
    return [holding.description(entry.fragment.id) for entry in collection.entries()]


def files(collection: Collection) -> set[str]:
    return {path.name for path in collection.path.rglob("*") if path.suffix in (".onnx", ".safetensors")}


def test_everything_is_described_anew_and_nothing_old_is_left(own: Collection) -> None:
    before, ids = files(own), [entry.fragment.id for entry in own.entries()]
    encoder = adapt(own, settings=BRIEF)
    reopened = Collection.open(own.path)
    assert reopened.recipe.encoder == encoder.digest != Encoder.ready().digest
    assert [entry.fragment.id for entry in reopened.entries()] == ids
    assert not files(own) & before
    assert len(search(reopened, ids[0]).hits) == 11
    assert reopened.entries()[0].fragment.columns["join"]


def test_killed_while_describing_it_goes_on_without_learning_anew(
    own: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, described = collecting.BATCH, []
    monkeypatch.setattr(collecting, "BATCH", 3)
    batches = Collection.batches

    def killed(*given: object) -> Iterator[Batch]:
        for number, batch in enumerate(batches(*given)):  # type: ignore[arg-type]
            if number == 2:
                raise KeyboardInterrupt
            described.append(len(batch.rows))
            yield batch

    with monkeypatch.context() as patch:
        patch.setattr(Collection, "batches", killed)
        with pytest.raises(KeyboardInterrupt):
            adapt(own, settings=BRIEF, device="cpu")
    assert described == [3, 3]
    assert own.recipe.encoder == Encoder.ready().digest
    learnt = next(own.path.glob("adapting-*")).read_bytes()
    assert own.verify().wrong == []
    monkeypatch.setattr(adapting, "fit_encoder", None)  # no second training
    monkeypatch.setattr(collecting, "BATCH", stored)
    done: list[tuple[int, int]] = []
    encoder = adapt(own, settings=BRIEF, device="cpu", bar=lambda _: lambda *at: done.append(at))
    assert encoder.onnx == learnt
    assert done[0][0] > 6  # fragments described before the kill are not described again
    assert Collection.open(own.path).recipe.encoder == encoder.digest
    assert not list(own.path.glob("adapting-*"))


def test_an_encoder_of_other_fragments_is_not_taken_up_again(own: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(resume, "redescribe", None)
        with pytest.raises(TypeError):
            describe_anew(own, Encoder.ready(), BRIEF, Workers(1), None)
    assert unfinished(own, BRIEF)
    own.remove([own.entries()[0].fragment.id])
    assert unfinished(own, BRIEF) is None


def test_a_large_collection_is_learnt_from_by_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    images = [Fragment(f"{number}.jpg", Path(f"{number}.jpg")) for number in range(50)]
    assert training_sample(images) == images
    monkeypatch.setattr(resume, "MAX_PHOTOGRAPHS", 20)
    some = training_sample(images)
    assert len(some) == 20
    assert some == sorted(some, key=images.index)
    assert some == training_sample(images)
    assert some != images[:20]


def test_worker_processes_change_nothing(own: Collection, tmp_path: Path) -> None:
    shutil.copytree(own.path, tmp_path / "twin")
    twin = Collection.open(tmp_path / "twin")
    here, there = adapt(own, settings=BRIEF, device="cpu"), adapt(twin, settings=BRIEF, device="cpu", workers=2)
    assert here.digest == there.digest
    for one, other in zip(described(own), described(twin), strict=True):
        np.testing.assert_array_equal(one.boxes, other.boxes)
        np.testing.assert_allclose(one.embeddings, other.embeddings, atol=1e-5)


def test_the_bag_stays_as_it_was(drawn: Path, tmp_path: Path) -> None:
    collection, _ = index(fragments(drawn)[:4], tmp_path / "C", recipe=MEMBRA)
    assert {len(d.bag) for d in described(collection)} == {min(64, len(d.boxes)) for d in described(collection)}
    adapt(collection, settings=BRIEF)
    grown, _ = index(fragments(drawn)[:5], collection.path, recipe=MEMBRA)  # still by `membra`, as after adapting
    assert grown.recipe.bag == MEMBRA.bag
    found = described(grown)
    assert [len(d.bag) for d in found] == [min(64, len(d.boxes)) for d in found]


def test_a_chosen_bag_stays(drawn: Path, tmp_path: Path) -> None:
    chosen = replace(MEMBRA, bag=BagSettings(words=12))
    collection, _ = index(fragments(drawn)[:4], tmp_path / "chosen", recipe=chosen)
    adapt(collection, settings=BRIEF)
    assert collection.recipe.bag == chosen.bag
    with pytest.raises(MembraError, match="other settings"):
        index(fragments(drawn), collection.path, recipe=MEMBRA)


class Killed(Exception):
    """Simulates a kill: no code catches it."""


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("moment", ["cutting letters", "training", "describing"])
def test_killed_at_any_stage_it_is_as_before(own: Collection, moment: str, workers: int) -> None:
    query = own.entries()[0].fragment.id
    before = search(own, query)

    def bar(label: str) -> Progress:
        def tick(done: int, total: int) -> None:
            if label == moment and done >= 2:
                raise Killed

        return tick

    with pytest.raises(Killed):
        adapt(own, settings=BRIEF, workers=workers, bar=bar)
    assert active_children() == []
    assert search(Collection.open(own.path), query) == before
    if moment == "describing":  # the last moment: files written by then do no harm
        adapt(own, settings=BRIEF)
        assert search(Collection.open(own.path), query) != before


def test_what_cannot_adapt_is_told(own: Collection, collection: Collection, tmp_path: Path) -> None:
    with pytest.raises(MembraError, match="autoencoder, which does not adapt"):
        adapt(collection, settings=BRIEF)
    own.remove([entry.fragment.id for entry in own.entries()[2:]])
    with pytest.raises(MembraError, match="too few to adapt to"):
        adapt(own, settings=BRIEF)


def test_a_gpu_that_is_missing_or_fails_is_told(own: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.cuda.is_available():
        with pytest.raises(MembraError, match="no GPU"):  # before any letter is cut
            adapt(own, settings=BRIEF, device="cuda", bar=lambda label: pytest.fail(f"{label} was begun"))

    def fail(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(identity, "warm_up", fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        adapt(own, settings=BRIEF)
    assert own.recipe.encoder == Encoder.ready().digest


def test_lost_images_are_told_before_any_work(drawn: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(drawn.parent / "images", source)
    collection, _ = index(fragments(source)[:3], tmp_path / "C", recipe=MEMBRA, encoder=None)
    (source / "0001.jpg").unlink()
    with pytest.raises(MembraError, match="1 images are gone"):
        adapt(collection, settings=BRIEF)


def test_training_on_known_joins_writes_an_encoder(drawn: Path, tmp_path: Path) -> None:
    found = fragments(drawn)
    joins = {fragment.id: fragment.columns["join"] for fragment in found[:8]}
    (tmp_path / "broken.jpg").write_text("no image")
    found.append(Fragment("broken.jpg", tmp_path / "broken.jpg"))
    letters, refused = train_on(found, MEMBRA, joins, tmp_path / "mine.onnx", BRIEF)
    assert len(refused) == 1
    assert "broken.jpg" in str(refused[0])
    assert letters > 300
    encoder = Encoder.open(tmp_path / "mine.onnx")
    assert encoder.dimension == 128
    assert encoder.digest != Encoder.ready().digest


def test_the_ready_encoder_finds_drawn_mates(indexed: Collection) -> None:
    """The shipped encoder has seen no drawn letter; a mate still comes first for most of these."""
    joins = {entry.fragment.id: entry.fragment.columns["join"] for entry in indexed.entries()}
    right = [joins[search(indexed, id, top=1).hits[0].id] == join for id, join in joins.items()]
    assert np.mean(right) >= 0.75


def test_few_fragments_are_left_as_they_are(own: Collection) -> None:
    own.remove([own.entries()[0].fragment.id])
    before = files(own)
    with pytest.raises(MembraError, match=r"11 fragments .* too few to adapt to: at least 12 .* nothing was changed"):
        adapt(own)
    assert files(own) >= {name for name in before if name.endswith(".onnx")}
    assert Collection.open(own.path).recipe.encoder == Encoder.ready().digest


def test_nothing_is_learnt_from_what_may_be_no_writing(own: Collection) -> None:
    """Of the twelve that are just enough one is doubtful: eleven are left to learn from."""
    with manifest.connect(own.path, write=True) as database:
        database.execute("UPDATE fragments SET note = ? WHERE id = ?", (DOUBTFUL, own.entries()[0].fragment.id))
    with pytest.raises(MembraError, match=r"11 fragments .* too few to adapt to: at least 12"):
        adapt(own, settings=replace(BRIEF, min_classes=12))


def test_a_share_of_the_weights_before_is_kept() -> None:
    before = {"a": np.array([1.0, 3.0], np.float32)}
    learnt = {"a": np.array([3.0, 3.0], np.float32), "new": np.array([7.0], np.float32)}
    mixed = identity._mixed(learnt, before, 0.25)
    assert mixed["a"].tolist() == [2.5, 3.0]
    assert mixed["new"].tolist() == [7.0]
