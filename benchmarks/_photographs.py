"""The photographs that a benchmark runs on: those of its first argument, or drawn ones."""

import sys
from pathlib import Path

from membra import scribes
from membra.sources.fragment import Fragment, fragments


def photographs(folder: Path) -> tuple[str, list[Fragment]]:
    """Return a name and the fragments of `sys.argv[1]` (a CSV or a folder); without it 24 are drawn into `folder`."""
    if len(sys.argv) < 2:
        return "drawn", fragments(scribes.collection(folder, manuscripts=8, fragments=24))
    source = Path(sys.argv[1])
    return "/".join(source.parts[-2:]), fragments(source)
