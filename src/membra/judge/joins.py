"""Read known joins: fragments that are known to come from one manuscript."""

from collections import Counter, defaultdict
from pathlib import Path

from membra.errors import Invalid
from membra.messages import Message
from membra.sources.fragment import split_piece
from membra.sources.tables import read_table


def read_joins(
    path: str | Path, ids: list[str], *, unseen: bool = False, column: str = "join"
) -> dict[str, dict[str, str]]:
    """Read a joins file: for each of `ids` that it has and that has a value in `column`, the join, the row.

    An image is matched by its path below the source, or by its file name if that is unique on both sides. A piece of a
    photograph has its own row if there is one, and otherwise its photograph's. `unseen`: the ids are of photographs
    whose pieces are not known yet, and the rows of all their pieces are returned too.
    """
    rows = read_table(Path(path), needed=("image", column))
    known = {*ids, *(split_piece(id)[0] for id in ids)}
    by_name: dict[str, list[str]] = defaultdict(list)
    for id in known:
        by_name[Path(id).name].append(id)
    images = [Path(row["image"]).as_posix() for row in rows]
    often = Counter(Path(image).name for image in images)

    def matched(wanted: str, image: str) -> str | None:
        """Return the id that matches `wanted`, which is `image` or its photograph."""
        own = by_name[Path(wanted).name]
        if wanted in known:
            return wanted
        return own[0] if len(own) == 1 and often[Path(image).name] == 1 else None

    found: dict[str, dict[str, str]] = {}
    for row, image in zip(rows, images, strict=True):
        photograph, piece = split_piece(image)
        name = matched(image, image)
        whole = matched(photograph, image) if piece else None
        if name or whole:
            found[name or f"{whole}#{piece}"] = row
    if not found:
        first = " ".join(images[0].split())[:300] if images else Message("nothing")
        raise Invalid(
            "{file} matches no fragment of the collection (it names {first}, the collection has {id}); "
            "give the image's path below the source, or its file name",
            file=path,
            first=first,
            id=ids[0] if ids else Message("nothing"),
        )
    own = {id: found.get(id) or found.get(split_piece(id)[0]) for id in ids}
    pieces = {id: row for id, row in found.items() if unseen and split_piece(id)[0] in own}
    return {id: row for id, row in (pieces | own).items() if row and row[column]}
