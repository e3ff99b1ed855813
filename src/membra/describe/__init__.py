"""From glyphs to a bag: the encoder, the per-fragment vocabulary, and the recipe that fixes every number.

The room is called as its verb: `membra.describe(fragment, encoder, recipe)`. Python puts a package's name where
the function of that name would stand, so the package itself answers the call.
"""

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        from membra.describe.recipe import describe

        return describe(*arguments, **named)


sys.modules[__name__].__class__ = _Room
