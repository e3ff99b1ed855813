"""The public surface: listed once, documented, a function for each command; and docs/python.md does what it says."""

import ast
import dataclasses
import doctest
import importlib
import inspect
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import membra
from membra.cli import cli

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "python.md"
SOURCE = Path(membra.__file__).parent

# A command's function has its name, unless it is the name of a room or module; three are methods of a collection.
FUNCTIONS = {
    "compact": "Collection.compact",
    "demo": "run_demo",
    "list": "Collection.entries",
    "remove": "Collection.remove",
    "see": "see_photograph",
}
PUBLIC = [name for name in membra.__all__ if inspect.isfunction(getattr(membra, name))]

RECORDS = [
    name
    for name in membra.__all__
    if isinstance(getattr(membra, name), type)
    and dataclasses.is_dataclass(getattr(membra, name))
    and name not in ("ProposalSettings", "Recipe")
]


def public(name: str) -> object:
    found: object = membra
    for part in name.split("."):
        found = getattr(found, part)
    return found


def test_every_name_is_there_documented_and_sorted() -> None:
    assert sorted(membra.__all__) == dir(membra)
    for name in membra.__all__:
        thing = getattr(membra, name)
        assert thing.__doc__, name


def test_the_surface_is_small() -> None:
    """Every public name is a promise: raise this number only for one that users need."""
    assert len(membra.__all__) <= 61


@pytest.mark.parametrize("command", sorted(cli.commands))
def test_every_command_has_its_function_and_calls_it(command: str) -> None:
    name = FUNCTIONS.get(command, command)
    function = public(name)
    assert inspect.isfunction(function)
    owner = function.__qualname__.split(".")[0]
    imported = {
        (node.module, alias.name)
        for path in (SOURCE / "cli").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    module = function.__module__
    # `index` is called as an attribute of its module, because the command has its name.
    assert {(module, owner), (module.rpartition(".")[0], module.rpartition(".")[2])} & imported


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_of_a_function_is_explained(name: str) -> None:
    function = getattr(membra, name)
    text = inspect.getdoc(function) or ""
    given = re.search(r"^Parameters\n-+\n(.*?)(\n\n[A-Z]\w+\n-+\n|\Z)", text, re.MULTILINE | re.DOTALL)
    assert given, name
    documented = {
        one
        for line in re.findall(r"^(\w.*?) :|^(\w[\w, ]*)$", given[1], re.MULTILINE)
        for one in ", ".join(line).split(", ")
    }
    assert set(inspect.signature(function).parameters) <= documented


@pytest.mark.parametrize("name", RECORDS)
def test_every_attribute_of_a_record_is_explained(name: str) -> None:
    """Settings have unit and reason beside the field instead."""
    record = getattr(membra, name)
    documented = set(
        re.findall(r"\w+", " ".join(re.findall(r"^(\w[\w, ]*) :", inspect.getdoc(record) or "", re.MULTILINE)))
    )
    assert {field.name for field in dataclasses.fields(record)} <= documented


def test_names_are_listed_in_one_place() -> None:
    """In the stub, which lazy_loader and type checkers read; and it is installed."""
    stub = ast.parse((SOURCE / "__init__.pyi").read_text(encoding="utf-8"))
    listed = [alias.name for node in ast.walk(stub) if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(listed) == sorted(membra.__all__)
    code = (SOURCE / "__init__.py").read_text(encoding="utf-8").partition('"""\n\nimport')[2]
    assert not [name for name in listed if re.search(rf"\b{name}\b", code)]
    shipped = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["membra"]
    assert {"__init__.pyi", "py.typed"} <= set(shipped)
    assert (SOURCE / "py.typed").is_file()


def test_functions_stay_functions_whatever_is_imported() -> None:
    """`describe`, `train` and `reproduce` are also packages, which Python would otherwise put in their place."""
    code = (
        "import membra.describe.bag, membra.train.adapt, membra.reproduce.run, membra\n"
        "from membra.train import augment, networks as nets\n"
        "print(*(type(getattr(membra, name)).__name__ for name in ('describe', 'train', 'reproduce', 'see')))"
    )
    pytest.importorskip("torch", reason="torch is in the extra [train]")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "function function function module\n"
    assert membra.describe is membra.describe_fragment  # the former name
    assert type(importlib.import_module("membra.describe")) is ModuleType


@pytest.mark.parametrize("name", membra.__all__)
def test_every_name_is_on_the_page_about_python(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGE.read_text(encoding="utf-8"))


def test_the_page_about_python_is_true(drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(drawn.parent / "images", tmp_path / "photographs")
    shutil.copy(drawn, tmp_path / "joins.csv")
    monkeypatch.chdir(tmp_path)
    done = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert (done.failed, done.attempted > 30) == (0, True)


def test_the_contract_in_python(drawn: Path, tmp_path: Path, encoder: membra.Encoder) -> None:
    collection = membra.Collection.create(tmp_path / "C", encoder=encoder)
    found = membra.fragments(drawn)
    collection.add(found[:6])
    description = membra.describe(found[0], encoder, collection.recipe)
    ranking = membra.search(membra.Collection.open(tmp_path / "C"), found[0].id, top=3)
    assert len(ranking.hits) == 3
    assert membra.chamfer(description.bag, description.bag) == 0
    scores = membra.evaluate(collection, drawn, methods=["bob-hungarian"])
    assert 0 <= scores["methods"]["bob-hungarian"]["hit@1"] <= 1
    collection.remove([found[0].id])
    assert len(collection.entries()) == 5
    bag = membra.Bag(prototypes=[[0.0, 0.0], [3.0, 4.0]], weights=[1, 1])
    assert membra.hungarian(bag, bag) == membra.transport(bag, bag) == 0


def test_training_says_what_does_not_go_together(drawn: Path, tmp_path: Path) -> None:
    """Raised before the check for PyTorch, and before any work."""
    found, out = membra.fragments(drawn), tmp_path / "e.onnx"
    for wrong, said in (
        ({"joins": drawn}, "learns without labels"),
        ({"network": "identity", "dimension": 9}, "for the autoencoder"),
        ({"network": "hand"}, "no network `hand`"),
    ):
        with pytest.raises(membra.MembraError, match=said):
            membra.train(found, out, **wrong)
    with pytest.raises(membra.MembraError, match=r"must end in \.onnx"):
        membra.train(found, tmp_path / "e.pt")


def test_an_export_of_no_pair_is_an_error(collection: membra.Collection, tmp_path: Path) -> None:
    for name, what in (("d.html", None), ("m.json", "iiif")):
        with pytest.raises(membra.MembraError, match="needs a pair"):
            membra.export(collection, tmp_path / name, what)
    with pytest.raises(membra.MembraError, match="there is no table `all`"):
        membra.export(collection, tmp_path / "t.csv", "all")


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(membra, "nonsense")
