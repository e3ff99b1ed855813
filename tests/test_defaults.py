"""A default stands once, beside the algorithm; the command line reads it there."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import membra.cli
from membra.cli import cli
from membra.cli.options import RECIPES, Setting, default_of
from membra.describe import recipe
from membra.find.proposals import ProposalSettings
from membra.sources.download import Download
from membra.train.training_settings import IdentitySettings, TrainSettings

FILES = sorted(Path(membra.cli.__file__).parent.glob("*.py"))


def options() -> Iterator[tuple[str, click.Option]]:
    for name, command in cli.commands.items():
        for option in command.params:
            if isinstance(option, click.Option):
                yield f"{name} {option.opts[0]}", option


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_command_writes_a_default(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            assert {keyword.arg for keyword in node.keywords} & {"default", "show_default"} == set(), node.lineno
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert not re.search(r"\[default: [\d.]", node.value), node.lineno  # nor a number in its help


@pytest.mark.parametrize(("name", "option"), list(options()), ids=[name for name, _ in options()])
def test_an_option_has_no_default_or_reads_it(name: str, option: click.Option) -> None:
    """A default that it reads is a valid value, and is shown in its help."""
    context = click.Context(cli.commands[name.split()[0]])
    if not isinstance(option, Setting):
        assert option.to_info_dict()["default"] in (None, False), name
        return
    found = default_of(option.of)
    assert option.type_cast_value(context, found) == found
    assert option.get_default(context) == (None if option.shown else found)
    if found != "":
        assert option.get_help_extra(context)["default"] == str(found)


def test_what_is_read_is_what_the_algorithm_does() -> None:
    given = {name: option for name, option in options() if isinstance(option, Setting)}
    expected = {
        "propose --nearness": ProposalSettings().nearness,
        "propose --least": ProposalSettings().least,
        "index --max-side": Download(Path()).max_side,
        "adapt --seed": IdentitySettings().seed,
        "train --dimension": TrainSettings().dimension,
        "train --sparsity": TrainSettings().sparsity,
        "see --recipe": recipe.MEMBRA.name,
        "reproduce --recipe": recipe.PAPER.name,
        "search --top": 20,
        "evaluate --methods": "default",
        "serve --port": 8000,
    }
    assert {name: default_of(given[name].of) for name in expected} == expected


def test_every_recipe_can_be_asked_for() -> None:
    assert tuple(recipe.RECIPES) == RECIPES
    for name, option in options():
        if option.opts[0] == "--recipe":
            assert isinstance(option.type, click.Choice)
            assert tuple(option.type.choices) == RECIPES, name
