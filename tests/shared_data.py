"""The shared data (real manuscripts, golden numbers) beside the checkout, which may appear or vanish during the tests.

The folder is looked up when a test starts, not at collection. A test that fails while the folder is removed or replaced
is skipped with that reason, since its failure is no evidence about membra.
"""

from collections.abc import Generator
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared"
State = tuple[int, ...] | None

_BEFORE = pytest.StashKey[State]()


@pytest.fixture
def shared() -> Path:
    """The folder with real manuscripts and golden numbers beside the repository. Looked up per test."""
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
    """Return the identity of the folder now, as a link and as its target; None if it is missing.

    Moving a folder away and back changes its ctime, even if it is the same folder.
    """
    try:
        found = SHARED.lstat(), (SHARED / "golden").stat()
    except OSError:
        return None
    return tuple(number for one in found for number in (one.st_dev, one.st_ino, one.st_ctime_ns))
