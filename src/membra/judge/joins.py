"""Known joins: which fragments are known to come from one manuscript."""

from collections import Counter, defaultdict
from pathlib import Path

from membra.errors import MembraError
from membra.see.fragment import read_table


def read_joins(path: str | Path, ids: list[str]) -> dict[str, dict[str, str]]:
    """For each of `ids` that the CSV knows, its row (`join` and whatever else the file has).

    An image is matched by its path below the source, or by its file name where that is unique on both sides.
    """
    rows = read_table(Path(path), needed=("image", "join"))
    by_name: dict[str, list[str]] = defaultdict(list)
    for id in ids:
        by_name[Path(id).name].append(id)
    known, exact = {}, set(ids)
    images = [Path(row["image"]).as_posix() for row in rows]
    names = [Path(image).name for image in images]
    often = Counter(names)
    for row, image, name in zip(rows, images, names, strict=True):
        if image in exact:
            known[image] = row
        elif len(by_name[name]) == 1 and often[name] == 1:
            known[by_name[name][0]] = row
    if not known:
        first = " ".join(images[0].split())[:300] if images else "nothing"
        raise MembraError(
            f"{path} matches no fragment of the collection (it names {first}, the "
            f"collection has {ids[0] if ids else 'nothing'}); give the image's path below the source, or its file name"
        )
    return {id: row for id, row in known.items() if row["join"]}
