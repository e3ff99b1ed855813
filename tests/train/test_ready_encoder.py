"""The tool that trains and measures the shipped encoder: from photographs to the table of the folds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click import ClickException
from click.testing import CliRunner
from safetensors.numpy import save_file

from membra import scribes

pytest.importorskip("torch", reason="training needs PyTorch, the extra [train]")

from tools import encoder_letters, ready_encoder

from membra.train import identity, training_settings
from membra.train.networks import Identity

SMALL = replace(identity.READY, channels=(8, 16, 32, 64), dimension=16, min_letters=600, batch=64, min_classes=2)


def run(*words: object) -> str:
    said = CliRunner().invoke(ready_encoder.main, [str(word) for word in words], catch_exceptions=False)
    assert said.exit_code == 0, said.output
    return said.stdout


@pytest.mark.slow
def test_from_photographs_to_the_table_of_the_folds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_letters, "FRAGMENTS", ("hebrew",))
    monkeypatch.setattr(encoder_letters, "PAGES", ("hebrew-pages",))
    monkeypatch.setattr(encoder_letters, "FOLDS", tmp_path / "folds.csv")
    monkeypatch.setattr(identity, "READY", SMALL)
    monkeypatch.setattr(training_settings, "ADAPTING", replace(SMALL, epochs=10.0, min_letters=0))
    for name, manuscripts in (("hebrew", 4), ("hebrew-pages", 1)):
        data = tmp_path / "data" / name
        scribes.collection(data, manuscripts=manuscripts, fragments=2 * manuscripts, letters=(44, 52), cameras=2)
    encoder_letters.FOLDS.write_text("join,fold\nm000,0\nm001,1\nm002,0\nm003,1\n")

    letters, weights = tmp_path / "letters.npz", tmp_path / "weights"
    run("gather", tmp_path / "data", "--out", letters)
    known = encoder_letters.read(letters)
    assert {name: int((known.kind == name).sum()) for name in np.unique(known.kind).tolist()} == {
        "16": 8,
        "30": 8,
        "page": 2,
        "whole": 8,
        "worn": 10,
        "worn again": 10,
    }
    counts = np.bincount(known.owner, minlength=len(known.kind))
    assert 12 <= np.median(counts[known.kind == "16"]) <= 22
    assert known.trained[np.isin(known.kind, ("whole", "page"))].all()
    assert not known.trained[np.isin(known.kind, ("16", "30"))].any()

    said = run("train", letters, "--out", weights, "--folds", "0,1").splitlines()
    for fold, line in enumerate(said):  # an encoder was not trained on the manuscripts that it is tested on
        own = known.trained & (known.fold != fold)
        assert line == f"{fold}: trained on {own[known.owner].sum()} letters of 2 manuscripts"

    rows = [line.split(" | ") for line in run("score", letters, weights, "--folds", 2).splitlines()[2:]]
    assert {(row[0].strip("| "), row[1], int(row[2])) for row in rows if row[1] == "all"} == {
        (name, "all", 8) for name in ("hebrew", "16 letters", "30 letters", "worn")
    }
    for row in rows:
        for cell in row[3:]:
            hit, average = (float(value.strip("| ")) for value in cell.split(" / "))
            assert 0 <= hit <= 1
            assert 0 < average <= 1

    said = run("adapt", letters, weights, "--folds", "0,1").splitlines()[2:]
    rows = [line.strip("| ").split(" | ") for line in said]
    assert {(row[0], row[1], int(row[2])) for row in rows} == {
        (name, part, 4) for name in ("hebrew", "16 letters", "30 letters", "worn") for part in ("own", "later")
    }
    before = ready_encoder._without(0, weights)
    own = np.flatnonzero((known.fold == 0) & (known.kind == "whole"))
    assert ready_encoder._adapted(known, own, before, seed=0).onnx != before.onnx
    assert ready_encoder._adapted(known, own[:1], before, seed=0) is before  # one fragment is too few


def test_an_encoder_without_two_folds_answers_for_both(tmp_path: Path) -> None:
    weights = Identity(16, (8, 16, 32, 64)).state_dict()
    save_file({name: value.numpy() for name, value in weights.items() if value.ndim}, tmp_path / "3+4.safetensors")
    assert ready_encoder._without(3, tmp_path).onnx == ready_encoder._without(4, tmp_path).onnx
    with pytest.raises(ClickException, match="no encoder trained without fold 2"):
        ready_encoder._without(2, tmp_path)


def test_a_manuscript_is_adapted_to_or_comes_later() -> None:
    joins = np.array(list("aabbccdddef"))
    parts = ready_encoder._own_and_later(joins, 0)
    own, later = (set(joins[rows].tolist()) for rows in parts.values())
    assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(len(joins)))
    assert not own & later
    assert len(own) == 4


def test_the_change_counts_queries_and_its_interval_manuscripts() -> None:
    same = [("a", np.array([1.0, 0.5, 1.0, 0.6]))] * 3 + [("b", np.array([0.0, 0.3, 1.0, 0.4]))]
    assert ready_encoder._change(same) == "4 | 0.750 / 0.450 | 1.000 / 0.550 | +0.250 / +0.100 | +0.100 to +0.100"
