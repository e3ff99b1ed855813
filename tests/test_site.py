"""The documentation as a site: built with --strict, complete, and usable offline, also from the disk."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import membra
from membra.cli import cli

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site like `make docs`. With --strict, a broken link or name is an error."""
    if importlib.util.find_spec("material") is None or importlib.util.find_spec("mkdocstrings") is None:
        pytest.skip("MkDocs Material is in the extra [docs]")
    site = tmp_path_factory.mktemp("built") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return site


def test_every_command_and_function_is_in_the_reference(site: Path) -> None:
    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    assert [name for name in cli.commands if f"Usage: membra {name} " not in commands] == []
    api = (site / "reference" / "api.html").read_text(encoding="utf-8")
    assert [name for name in set(membra.__all__) - {"describe"} if f'.{name}"' not in api] == []


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|iframe)[^>]*\ssrc="?(https?:[^" >]+)', text)
        loaded += re.findall(r'<link[^>]*rel="?(?:stylesheet|preconnect|icon)[^>]*href="?(https?:[^" >]+)', text)
        assert loaded == [], page.name
    assert len(pages) > 50


def test_the_search_works_from_the_disk(site: Path, browser: "Browser") -> None:
    """Browsers start no worker from a file URL; docs/assets/iframe-worker.js replaces it."""
    from playwright.sync_api import expect

    page = browser.new_page()
    outside: list[str] = []
    page.on("request", lambda asked: None if asked.url.startswith("file:") else outside.append(asked.url))
    page.goto((site / "decisions" / "local-scale.html").as_uri())
    page.locator("input[name=query]").click()
    page.keyboard.type("shortlist", delay=30)
    expect(page.locator(".md-search-result__link").first).to_have_attribute("href", re.compile(r"html.*shortlist"))
    page.goto((site / "architecture.html").as_uri())
    expect(page.locator(".rooms b")).to_have_count(10)  # eight rooms, the library and the person
    assert outside == []
    page.close()
