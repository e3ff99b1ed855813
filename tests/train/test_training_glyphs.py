"""Training glyphs: a maximum per image, the same selection with any number of workers, and the rejections."""

from pathlib import Path

import numpy as np
import pytest

from membra.describe.recipe import MEMBRA, pick
from membra.describe.workers import Workers
from membra.errors import MembraError
from membra.sources.fragment import Fragment, fragments
from membra.train.training_glyphs import cut_letters


def test_at_most_so_many_of_an_image_and_whose_they_are(drawn: Path) -> None:
    found = [pick(fragment, MEMBRA)[1].glyphs.patches for fragment in fragments(drawn)]
    assert max(map(len, found)) > 20
    patches, owners, pieces, refused = cut_letters(fragments(drawn), MEMBRA, Workers(1), most=20)
    assert not refused
    assert pieces == fragments(drawn)
    assert np.bincount(owners).tolist() == [min(20, len(own)) for own in found]
    for index, own in enumerate(found):
        assert {patch.tobytes() for patch in patches[owners == index]} <= {patch.tobytes() for patch in own}


def test_worker_processes_cut_the_same_in_the_same_order(drawn: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_text("no image")
    mixed = fragments(drawn)
    mixed.insert(3, Fragment("broken.jpg", tmp_path / "broken.jpg"))
    here = cut_letters(mixed, MEMBRA, Workers(1), most=20)
    done: list[int] = []
    with Workers(2) as hands:
        there = cut_letters(mixed, MEMBRA, hands, most=20, progress=lambda so_far, _: done.append(so_far))
    for one, other in zip(here[:2], there[:2], strict=True):
        np.testing.assert_array_equal(one, other)
    assert [str(reason) for reason in there[3]] == [str(reason) for reason in here[3]]
    assert "broken.jpg" in str(there[3][0])
    assert there[2] == here[2] == fragments(drawn)
    assert done == list(range(1, 14))


def test_another_seed_draws_others(drawn: Path) -> None:
    one, other = (cut_letters(fragments(drawn), MEMBRA, Workers(1), most=20, seed=(seed,))[0] for seed in (1, 2))
    assert one.shape == other.shape
    assert (one != other).any()


def test_nothing_to_train_on(tmp_path: Path) -> None:
    (tmp_path / "x.jpg").write_text("no image")
    with pytest.raises(MembraError, match="nothing to train on"):
        cut_letters([Fragment("x.jpg", tmp_path / "x.jpg")], MEMBRA, Workers(1), most=20)
