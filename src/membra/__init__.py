"""membra finds the scattered fragments of one manuscript.

>>> import membra
>>> bag = membra.Bag(prototypes=[[0.0, 0.0], [3.0, 4.0]], weights=[0.5, 0.5])
>>> membra.chamfer(bag, bag)
0.0

Names are loaded when first used, so that `import membra` and `membra --help` stay quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from membra.compare.distance import chamfer, hungarian, transport
    from membra.describe.bag import Bag
    from membra.describe.encoder import Encoder
    from membra.describe.recipe import MEMBRA, PAPER, Description, Recipe, describe
    from membra.errors import MembraError, Refused
    from membra.find.search import Hit, Ranking, search
    from membra.judge.evaluate import evaluate
    from membra.see.glyphs import Glyphs
    from membra.show.evidence import Evidence, Match, explain
    from membra.sources.fragment import Fragment, fragments
    from membra.store.collection import Collection
    from membra.store.index import index

__version__ = "0.2.0"

_HOME = {
    "Bag": "describe.bag",
    "Collection": "store.collection",
    "Description": "describe.recipe",
    "Encoder": "describe.encoder",
    "Evidence": "show.evidence",
    "Fragment": "sources.fragment",
    "Glyphs": "see.glyphs",
    "Hit": "find.search",
    "MEMBRA": "describe.recipe",
    "Match": "show.evidence",
    "MembraError": "errors",
    "PAPER": "describe.recipe",
    "Ranking": "find.search",
    "Recipe": "describe.recipe",
    "Refused": "errors",
    "chamfer": "compare.distance",
    "describe": "describe.recipe",
    "evaluate": "judge.evaluate",
    "explain": "show.evidence",
    "fragments": "sources.fragment",
    "hungarian": "compare.distance",
    "index": "store.index",
    "search": "find.search",
    "transport": "compare.distance",
}

__all__ = [
    "MEMBRA",
    "PAPER",
    "Bag",
    "Collection",
    "Description",
    "Encoder",
    "Evidence",
    "Fragment",
    "Glyphs",
    "Hit",
    "Match",
    "MembraError",
    "Ranking",
    "Recipe",
    "Refused",
    "chamfer",
    "describe",
    "evaluate",
    "explain",
    "fragments",
    "hungarian",
    "index",
    "search",
    "transport",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'membra' has no attribute {name!r}")
    return getattr(import_module(f"membra.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
