"""The shared data (real manuscripts, golden numbers) beside the checkout, which may come and go while tests run.

It is looked for when a test begins, not when tests are collected. A test that fails while the folder goes away, or is
put in its place, says nothing about membra: it is skipped, with that reason.
"""

from collections.abc import Generator
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared"
State = tuple[int, ...] | None

_BEFORE = pytest.StashKey[State]()


@pytest.fixture
def shared() -> Path:
    """The folder with real manuscripts and golden numbers beside the repository. Of one test: the next looks again."""
    if _state() is None:
        pytest.skip("the shared data (real manuscripts, golden numbers) is not beside this checkout")
    return SHARED


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    item.stash[_BEFORE] = _state()
    yield from _skipped_without(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    yield from _skipped_without(item)


def _skipped_without(item: pytest.Item) -> Generator[None, None, None]:
    try:
        yield
    except Exception:
        if "shared" in getattr(item, "fixturenames", ()) and _state() != item.stash[_BEFORE]:
            pytest.skip("the shared data beside this checkout went away or was replaced while the test ran")
        raise


def _state() -> State:
    """Which folder lies there now, as a link and as what it leads to; None where there is none.

    Moving a folder away and back changes its time of change, even where it is the same folder.
    """
    try:
        found = SHARED.lstat(), (SHARED / "golden").stat()
    except OSError:
        return None
    return tuple(number for one in found for number in (one.st_dev, one.st_ino, one.st_ctime_ns))
