"""Accessibility violations on a page, found by axe-core from npm."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

_SCRIPT = Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js"


def need_axe() -> None:
    """Skip the test if axe-core is not installed."""
    if not _SCRIPT.is_file():
        pytest.skip("axe-core, which npm brings, is not there: `make test` fetches it")


def violations(page: Page, url: str) -> list[tuple[Any, ...]]:
    """Return the serious and critical violations of the open page: its `url`, the rule, the element, the fix."""
    page.add_script_tag(path=str(_SCRIPT))
    found = page.evaluate("axe.run({ resultTypes: ['violations'] }).then((found) => found.violations)")
    return [
        (url, one["id"], one["nodes"][0]["html"][:160], one["nodes"][0].get("failureSummary", "")[:200])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
