"""The cache of a reproduction: results by content and recipe, so that no later run repeats them."""

import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra import __version__
from membra.files import atomic_write, exclusive_lock

Arrays = dict[str, NDArray[Any]]

# Other versions of these may change the last digits, so they are part of every key.
_NUMERICS = ("numpy", "scipy", "scikit-learn", "POT", "opencv-python-headless")


class Work:
    """A folder of results, each named by the digest of its inputs and written atomically."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._versions = {name: version(name) for name in _NUMERICS} | {"membra": __version__}

    def path(self, kind: str, recipe: Mapping[str, Any], suffix: str) -> Path:
        """Return the path of the result of this kind and recipe, existing or not."""
        text = json.dumps({"recipe": recipe, "versions": self._versions}, sort_keys=True, default=str)
        return self.folder / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:24]}{suffix}"

    def kept(self, kind: str, recipe: Mapping[str, Any], make: Callable[[], Arrays]) -> Arrays:
        """Return the arrays of this kind and recipe: read from the cache, or computed with `make` and stored."""
        path = self.path(kind, recipe, ".npz")
        if path.exists():
            try:
                with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                    return dict(file)
            except (OSError, ValueError, EOFError, zipfile.BadZipFile):
                pass  # damaged: computed again below
        arrays = make()
        buffer = BytesIO()
        np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
        atomic_write(path, buffer.getvalue())
        return arrays

    def sole_user(self) -> AbstractContextManager[None]:
        """Lock the folder for one run at a time."""
        return exclusive_lock(self.folder / "run.lock", self.folder.parent)
