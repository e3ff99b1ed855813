"""membra finds the scattered fragments of one manuscript.

>>> import membra
>>> bag = membra.Bag(prototypes=[[0.0, 0.0], [3.0, 4.0]], weights=[0.5, 0.5])
>>> membra.chamfer(bag, bag)
0.0

The public names are listed in `__init__.pyi`, and only there. Each is imported on first use, so that
`import membra` and `membra --help` start fast. `describe`, `train` and `reproduce` are also packages: as an
attribute of `membra` each is the function, and `from membra.train.adapt import ...` imports from the package.
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
