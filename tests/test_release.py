"""Files around the code name existing options, files and tools. Runs no workflow and no container."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

import membra
from membra.cli import cli
from membra.show.web.safety import Guard

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
FORMS = sorted(path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def parsed(words: list[str]) -> dict[str, Any]:
    """Parse the options of a command line with the program's parser; invalid ones raise."""
    command = cli.commands[words[0]]
    with command.make_context(words[0], words[1:], parent=click.Context(cli)) as context:
        return context.params


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.+)$", DOCKERFILE, re.MULTILINE)


def test_the_container_serves_what_is_mounted_and_asks_for_a_key() -> None:
    [entry], [arguments] = instructions("ENTRYPOINT"), instructions("CMD")
    assert json.loads(entry) == ["membra"]
    words = json.loads(arguments)
    options = parsed(words)
    assert words[1] == "/collection"
    assert instructions("EXPOSE") == [str(options["port"])]
    assert not Guard(host=options["host"]).local


def test_the_container_runs_as_nobody_special() -> None:
    last = DOCKERFILE.rsplit("\nFROM ", 1)[1]
    [user] = re.findall(r"^USER (\w+)$", last, re.MULTILINE)
    assert re.search(rf"useradd .*\b{user}\b", last)


def test_the_container_is_built_from_files_that_are_there_and_sent() -> None:
    """Docker's patterns without `**/` apply to the root; `*` followed by exceptions leaves only these."""
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    sent = {line[1:] for line in patterns if line.startswith("!")}
    assert patterns[0] == "*"
    copied = [name for line in instructions("COPY") if "--from" not in line for name in line.split()[:-1]]
    assert copied
    for name in copied:
        assert (ROOT / name).exists(), name
        assert name in sent, f"{name} is not sent to Docker"
    assert sent == set(copied)
    lock = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    for line in instructions("COPY --from=scripts"):
        source = line.split()[0].removeprefix("/scripts/")
        assert any(source.startswith(f"{package}/") for package in lock if package), source
        assert source in MAKEFILE, f"`make scripts` copies another file than {source}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_what_exists(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    lines = [line for step in steps for line in step.get("run", "").splitlines()]
    for words in map(shlex.split, lines):
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", MAKEFILE, re.MULTILINE), words
        if words[0].startswith("."):
            assert (ROOT / words[0]).stat().st_mode & 0o111, words
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]) for step in steps if "uses" in step)
    assert workflow["permissions"] == {"contents": "read"}


def test_ci_runs_what_a_person_runs() -> None:
    assert "run: .ci/run\n" in (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    assert re.findall(r"^make (.+)$", (ROOT / ".ci/run").read_text(), re.MULTILINE) == [
        "lint",
        "docs",
        "test",
    ]
    assert "run: make test-long\n" in (ROOT / ".github/workflows/long.yml").read_text(encoding="utf-8")


def test_a_tag_must_name_the_version() -> None:
    """Runs the line of the workflow with this version and with another."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/wheels.yml").read_text(encoding="utf-8"))
    assert workflow[True]["push"] == {"tags": ["v*"]}  # YAML 1.1 parses the key `on` as true
    [line] = [step["run"] for step in workflow["jobs"]["sdist"]["steps"] if "GITHUB_REF_NAME" in step.get("run", "")]
    for tag, status in ((f"v{membra.__version__}", 0), ("v9.9.9", 1)):
        done = subprocess.run(
            ["bash", "-c", line], cwd=ROOT, env={"GITHUB_REF_NAME": tag, "PATH": "/usr/bin:/bin"}, check=False
        )
        assert done.returncode == status, tag


def test_commits_are_linted_as_make_lints() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repository["repo"] for repository in config["repos"]] == ["local"]
    hooks = [hook["entry"] for repository in config["repos"] for hook in repository["hooks"]]
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert lint
    commands = [line.strip().replace("$(BIN)", ".venv/bin").replace(" --check", "") for line in lint[1].splitlines()]
    assert len(hooks) == len(commands)
    assert all(line.startswith(hook) for hook, line in zip(hooks, commands, strict=True))
    folders = re.fullmatch(r"\^\((.+)\)/", config["files"])
    assert folders
    assert commands[0] == commands[0].split(" src")[0] + " " + folders[1].replace("|", " ")


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_forms_for_issues_are_whole(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(form)
    ids = [field["id"] for field in form["body"]]
    assert len(set(ids)) == len(ids)
    assert all(field["attributes"]["label"] for field in form["body"])
    text = path.read_text(encoding="utf-8")
    for line in re.findall(r"`membra ([^`]+)`", text):
        if not line.startswith("--"):
            parsed(shlex.split(line))


def test_commands_of_the_page_about_installing_are_accepted() -> None:
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8").replace("\\\n", " ")
    extras = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    project = (ROOT / "pyproject.toml").read_text()
    assert extras
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras)
    images = re.findall(r"^docker run .* membra(?: (.+))?$", page, re.MULTILINE)
    assert len(images) == 2
    for line in filter(None, images):
        parsed(shlex.split(line))
    for target in re.findall(r"`make (\w+)`", page):
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target


def test_text_files_are_as_editorconfig_says() -> None:
    """Files without a formatter: no trailing blanks, a final newline, tabs only in the Makefile."""
    names = ["Makefile", "Dockerfile", ".dockerignore", ".editorconfig", ".gitignore", "MANIFEST.in", "CITATION.cff"]
    files = [ROOT / name for name in names] + [path for path in (ROOT / ".github").rglob("*") if path.is_file()]
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert text.endswith("\n"), path
        assert not re.search(r"[ \t]$", text, re.MULTILINE), path
        assert path.name == "Makefile" or "\t" not in text, path
