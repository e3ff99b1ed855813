"""Check for PyTorch, which comes with the extra `[train]`, before any work starts."""

from importlib.util import find_spec

from membra.errors import Unsupported


def check_torch() -> None:
    """Raise `Unsupported`, with the install command, if PyTorch is missing."""
    if find_spec("torch") is None:
        raise Unsupported(
            "training needs PyTorch, which is not installed; run `pip install 'membra[train]'`, "
            "or in a checkout `make install EXTRAS=web,train`"
        )
