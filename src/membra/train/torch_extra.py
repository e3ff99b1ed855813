"""Whether PyTorch is there, asked before any work is done; it comes with the extra `[train]`."""

from importlib.util import find_spec

from membra.errors import Unsupported


def check_torch() -> None:
    """Raise `Unsupported`, with what to do, where PyTorch is not installed."""
    if find_spec("torch") is None:
        raise Unsupported(
            "training needs PyTorch, which is not installed; run `pip install 'membra[train]'`, "
            "or in a checkout `make install EXTRAS=web,train`"
        )
