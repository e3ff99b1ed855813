"""Writes `docs/reliability.md` from what the tests say and the outcome.

MEMBRA_LENGTH=long pytest tests/reliability --write-table
"""

import multiprocessing
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

import rows
from lengths import LENGTH

# Processes of tests that kill them start from one that has loaded what they need: in milliseconds, not in seconds.
LOADED = [
    *("pytest", "hypothesis.stateful", "click.testing", "onnxruntime", "onnx", "scipy.ndimage", "sklearn.cluster"),
    *(
        "PIL.PngImagePlugin",
        "rich.progress",
        "safetensors.torch",
        "torch.optim",
        "torch._dynamo",
        "membra.train.autoencoder",
    ),
    *("membra.cli", "membra.find.search", "membra.store.index", "membra.train.adapt", "membra.train.identity"),
]

RESULTS: dict[str, Counter[str]] = defaultdict(Counter)  # of each test that proves a row, how its runs ended


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-table", action="store_true", help="write docs/reliability.md from this run")


def pytest_configure(config: pytest.Config) -> None:
    if LENGTH == "brief" and config.getoption("--write-table", default=False):
        raise pytest.UsageError("brief tests are no proof: MEMBRA_LENGTH=long pytest tests/reliability --write-table")
    multiprocessing.get_context("forkserver").set_forkserver_preload(LOADED)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if item.get_closest_marker("row"):
        # A property travels with the report, also from a process that runs a part of the tests.
        report.user_properties.append(("proves", f"{item.path.name}::{item.originalname}"))  # type: ignore[attr-defined]
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or not report.passed:
        for test in (value for name, value in report.user_properties if name == "proves"):
            RESULTS[str(test)][report.outcome] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    whole = not hasattr(session.config, "workerinput")  # not a part of the tests in a process of its own
    if whole and session.config.getoption("--write-table", default=False):
        results = {
            test: ", ".join(f"{count} {outcome}" if count > 1 else outcome for outcome, count in outcomes.items())
            for test, outcomes in RESULTS.items()
        }
        rows.PAGE.write_text(rows.page(rows.proofs(), results), encoding="utf-8")
