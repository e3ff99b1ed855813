"""Tests with the shared data are skipped with a reason if it is missing or vanishes, and fail for any other error."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import shared_data

CONFTEST = 'pytest_plugins = ("shared_data",)\n'
TESTS = """
import pytest

@pytest.fixture
def golden(shared):
    return (shared / "golden" / "numbers.csv").read_text()

def test_reads(golden):
    assert golden == "1"

def test_wrong(golden):
    assert golden == "2"

def test_a_file_that_was_never_there(shared):
    (shared / "golden" / "others.csv").read_text()

def test_moved_back_too_late(shared):
    shared.rename(shared.with_name("away"))
    try:
        (shared / "golden" / "numbers.csv").read_text()
    finally:
        shared.with_name("away").rename(shared)

def test_finished_before_it_goes(golden, shared):
    shared.rename(shared.with_name("gone"))

def test_gone(golden):
    pass

def test_comes_again(tmp_path):
    with pytest.raises(FileNotFoundError):
        (SHARED / "golden" / "numbers.csv").read_text()
    SHARED.with_name("gone").rename(SHARED)

def test_reads_again(golden):
    assert golden == "1"

def test_goes_while_it_runs(shared):
    shared.rename(shared.with_name("gone"))
    (shared / "golden" / "numbers.csv").read_text()

def test_another_error_without_it(tmp_path):
    (tmp_path / "nothing").read_text()
"""


def test_the_folder_may_come_and_go(tmp_path: Path) -> None:
    tests = tmp_path / "checkout" / "tests"
    tests.mkdir(parents=True)
    golden = tmp_path / "shared" / "golden"
    golden.mkdir(parents=True)
    (golden / "numbers.csv").write_text("1")
    shutil.copy(shared_data.__file__, tests)
    (tests / "conftest.py").write_text(CONFTEST)
    (tests / "test_it.py").write_text("from shared_data import SHARED\n" + TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-rs",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tests.parent),
        "tests",
    ]
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    environment = alone | {"PYTHONPATH": str(tests)}
    done = subprocess.run(
        command, cwd=tests.parent, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("tests/test_it.py::")]
    outcomes = dict(line.split("::")[1].split()[:2] for line in lines)
    assert outcomes == {
        "test_reads": "PASSED",
        "test_wrong": "FAILED",
        "test_a_file_that_was_never_there": "FAILED",
        "test_moved_back_too_late": "SKIPPED",
        "test_finished_before_it_goes": "PASSED",
        "test_gone": "SKIPPED",
        "test_comes_again": "PASSED",
        "test_reads_again": "PASSED",
        "test_goes_while_it_runs": "SKIPPED",
        "test_another_error_without_it": "FAILED",
    }, done.stdout
    assert "went away or was replaced while the test ran" in done.stdout
    assert "is not beside this checkout" in done.stdout
