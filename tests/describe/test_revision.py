"""Tests of the revision: any changed number must raise it, and a recipe shows whether this version reproduces it."""

import importlib
import importlib.util
import json
import pkgutil
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from membra import see
from membra.describe import bag as bags
from membra.describe import recipe as recipes
from membra.describe.encoder import SHIPPED, Encoder
from membra.describe.recipe import MEMBRA, PAPER, RECIPES, REVISION, Recipe, computed, renewed
from membra.errors import MembraError
from membra.see.glyphs import cut_glyphs

HERE = Path(__file__).parent
STORED = json.loads((HERE / "digests.json").read_text())
RAISE = "raise REVISION in describe/recipe.py, say there what changed, and run `python tests/describe/make_digests.py`"


@pytest.fixture(scope="module")
def digests() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_digests", HERE / "make_digests.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def changed(digests: ModuleType, name: str) -> set[str]:
    """Return the steps whose numbers differ from the stored ones."""
    stored = dict(STORED[name])
    found = digests.numbers(RECIPES[name])
    assert stored.pop("revision") == RECIPES[name].revision, f"the revision of `{name}` is another: {RAISE}"
    # a new setting, and one that was removed, change no number by themselves
    was, now = stored.pop("settings"), found["settings"]
    others = {"settings"} if any(was[setting] != now[setting] for setting in was.keys() & now.keys()) else set()
    near = {step: pytest.approx(stored.pop(step), abs=abs) for step, abs in (("embeddings", 2e-3), ("seen", 0.05))}
    # the output of a network differs by a pixel between processors
    for step, value in stored.items():
        if isinstance(value, list):
            near[step] = pytest.approx(value, rel=0.003 if step == "distances" else 0.01, abs=0.05)
    return others | {step for step, value in (stored | near).items() if found[step] != value}


@pytest.mark.parametrize("name", RECIPES)
def test_numbers_change_only_with_the_revision(digests: ModuleType, name: str) -> None:
    steps = changed(digests, name)
    assert not steps, f"the recipe `{name}` gives other {', '.join(sorted(steps))}: {RAISE}"


def test_the_papers_numbers_never_change() -> None:
    assert PAPER.revision == STORED["paper"]["revision"] == 1


def test_a_changed_number_is_seen(digests: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a setting's default, in a constant elsewhere, in a formula."""
    with monkeypatch.context() as patched:
        patched.setitem(RECIPES, "membra", replace(MEMBRA, letters=replace(MEMBRA.letters, min_area=0.2)))
        assert {"settings", "letters", "boxes", "patches"} <= changed(digests, "membra")
    with monkeypatch.context() as patched:  # in a setting that has no effect on the photographs
        patched.setitem(RECIPES, "membra", replace(MEMBRA, reading=replace(MEMBRA.reading, max_scale=2.6)))
        assert changed(digests, "membra") == {"settings"}
    for constant, name in (("ink.MAX_GAIN", "sauvola"), ("fixes.MEANT", "membra")):
        with monkeypatch.context() as patched:  # in a constant of another recipe, and in one that corrections go by
            patched.setattr(f"membra.see.{constant}", 2.5)
            assert changed(digests, name) == {"settings"}
    with monkeypatch.context() as patched:
        patched.setattr(recipes, "cut_glyphs", lambda ink, settings: cut_glyphs(ink, replace(settings, longest=58)))
        assert changed(digests, "paper") >= {"patches", "embeddings"}
    with monkeypatch.context() as patched:
        patched.setattr("membra.compare.local_scaling.NEIGHBOURS", 2)
        assert changed(digests, "membra") == {"distances"}
    with monkeypatch.context() as patched:
        patched.setattr(bags, "_lengthened", lambda centres, *_: 1.1 * centres)
        assert "bags" in changed(digests, "membra")


def test_every_constant_of_what_sees_is_looked_at(digests: ModuleType) -> None:
    """Also one in a file that has none yet. `sift.py` describes nothing: other methods are measured with it."""
    looked_at = {name for recipe in RECIPES.values() for name in digests.settings(recipe)}
    files = [importlib.import_module(file.name) for file in pkgutil.iter_modules(see.__path__, "membra.see.")]
    found = {f"{file.__name__}.{name}" for file in files for name in digests._constants(file)}
    assert found - looked_at == {"membra.see.sift.MAX_TOGETHER"}


def test_a_recipe_that_does_not_say_is_of_the_first_revision() -> None:
    values = json.loads(MEMBRA.to_json())
    for name in ("revision", "eye", "pieces", "min_legibility"):
        del values[name]
    old = Recipe.from_json(json.dumps(values))
    assert (old.revision, old.eye, old.pieces, old.min_legibility) == (1, "", "one", 0.0)
    values = json.loads(PAPER.to_json())
    for name in ("revision", "eye", "pieces", "min_legibility"):
        del values[name]
    paper = Recipe.from_json(json.dumps(values))
    assert paper == PAPER == computed(paper)  # still reproduced


def test_another_revision_may_have_had_other_settings() -> None:
    values = json.loads(MEMBRA.to_json())
    values["ink"]["sharpness"] = 3
    values["sight"] = {"wide": 2}
    with pytest.raises(MembraError, match="sharpness"):
        Recipe.from_json(json.dumps(values))
    values["revision"] = REVISION - 1
    old = Recipe.from_json(json.dumps(values))
    assert old == replace(MEMBRA, revision=REVISION - 1)
    assert old != computed(old)
    assert Recipe.from_json(old.to_json()) == old


def test_what_a_recipe_becomes_when_it_is_described_anew() -> None:
    old = replace(MEMBRA, revision=REVISION - 1, encoder="e", few_letters=3, pieces="one")
    now = replace(MEMBRA, encoder="e", eye=computed(MEMBRA).eye)
    assert renewed(old).few_letters == MEMBRA.few_letters
    assert renewed(replace(old, pieces="auto")) == now
    assert renewed(replace(old, bag=bags.BagSettings(words=32))).bag == MEMBRA.bag
    assert renewed(replace(old, name="mine")) == computed(replace(old, name="mine"))  # no such name
    chosen = computed(replace(MEMBRA, few_letters=3, encoder="e"))
    assert renewed(chosen) == chosen  # of this revision: chosen settings stay


def test_an_eye_is_part_of_a_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    own = computed(MEMBRA)
    monkeypatch.setattr(recipes, "eye_of", lambda _: "another")
    assert computed(own).eye == "another"
    assert computed(own) != own
    assert own.eyes != computed(own).eyes


def test_every_encoder_that_ever_came_with_membra_is_known() -> None:
    """Otherwise a collection described with it would keep it when it is described again."""
    assert Encoder.ready().digest == SHIPPED[-1]
