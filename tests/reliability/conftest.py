"""Writes `docs/reliability.md` from the markers and the outcome: `pytest tests/reliability --write-table`."""

import multiprocessing
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

import rows

# Processes of tests that kill them start from one that has loaded what they need: in milliseconds, not in seconds.
LOADED = [
    *("pytest", "hypothesis.stateful", "click.testing", "onnxruntime"),
    *("membra.cli", "membra.find.search", "membra.find.index", "membra.find.adapt", "membra.describe.identity"),
]

RESULTS = pytest.StashKey[dict[str, Counter[str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-table", action="store_true", help="write docs/reliability.md from this run")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RESULTS] = defaultdict(Counter)
    multiprocessing.get_context("forkserver").set_forkserver_preload(LOADED)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if item.get_closest_marker("row") and (report.when == "call" or not report.passed):
        test = f"{item.path.name}::{item.originalname}"  # type: ignore[attr-defined]
        item.config.stash[RESULTS][test][report.outcome] += 1
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--write-table", default=False):
        counted = session.config.stash[RESULTS]
        results = {
            test: ", ".join(f"{count} {outcome}" if count > 1 else outcome for outcome, count in outcomes.items())
            for test, outcomes in counted.items()
        }
        rows.PAGE.write_text(rows.page(rows.proofs(), results), encoding="utf-8")
