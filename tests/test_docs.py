"""The docs are complete: every command, method and JSON key is documented, links resolve, versions agree."""

import re
import tomllib
from pathlib import Path

import pytest

import membra
from membra.cli import cli
from membra.compare.methods import METHODS
from membra.compare.peers import PEERS
from membra.judge.metrics import Outcome, score

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_every_command_is_written_about(name: str) -> None:
    assert f"membra {name}" in TEXT


@pytest.mark.parametrize("method", [method.name for method in METHODS])
def test_every_method_is_in_the_table_of_methods(method: str) -> None:
    assert f"`{method}`" in (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("peer", [peer.name for peer in PEERS])
def test_every_peer_is_named_with_its_source(peer: str) -> None:
    for page in ("how-it-works.md", "claims.md"):
        assert f"`{peer}`" in (ROOT / "docs" / page).read_text(encoding="utf-8")


def test_every_key_of_the_scores_is_in_formats() -> None:
    import numpy as np

    keys = set(score([Outcome(np.array([True]), 1, "a", "a")])) | {"fragments", "described", "excluded", "queries"}
    text = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    assert {key for key in keys if f"`{key}`" not in text} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_from_clone_to_candidates_in_four_commands() -> None:
    """In the first 25 lines of the README."""
    screen = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:25])
    blocks = re.findall(r"^```\n(.*?)^```$", screen, re.MULTILINE | re.DOTALL)
    commands = [line.split("#")[0].split() for line in blocks[1].splitlines()]
    assert len(commands) <= 4
    assert commands[0][:2] == ["git", "clone"]
    assert commands[-1][1] == "search"


def test_the_readme_is_a_screen_and_a_half_and_names_both_commands_first() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count("\n") <= 75
    first = text.split("```")[1].splitlines()
    assert [line.partition("#")[0].strip() for line in first if line] == ["make demo", "make test"]


def test_a_decision_has_context_a_table_and_a_conclusion() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    index = (ROOT / "docs" / "decisions" / "index.md").read_text(encoding="utf-8")
    for page in pages:
        text = page.read_text(encoding="utf-8")
        if page.name != "index.md":
            assert len(re.findall(r"^\|[-|]+\|$", text, re.MULTILINE)) == 1, page.name
            assert 0 < text.index("**Context.**") < text.index("\n|") < text.index("**Conclusion.**"), page.name
            assert f"({page.name})" in index, page.name
    assert len(pages) > 20


def test_every_public_name_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    documented = {name.rpartition(".")[2] for name in re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)}
    assert documented == set(membra.__all__) - {"describe"}  # the former name of `describe_fragment`


def test_no_page_speaks_of_a_machine() -> None:
    assert not re.search(r"/work/|/tmp/w/|/root/", TEXT)


def test_versions_agree() -> None:
    assert f"version: {membra.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {membra.__version__}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line and line[0] != "#")
    names = {re.split(r"[>=\[]", need)[0].lower().replace("_", "-") for need in project["dependencies"]}
    pinned = {name.lower().replace("_", "-") for name in pins}
    assert names - pinned == set()
