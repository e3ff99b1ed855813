"""A drawn collection like a library's: some manuscripts have several fragments in it, most have one."""

import csv
import shutil
from pathlib import Path

from _timing import progress

from membra import scribes
from membra.compare.threads import processors
from membra.sources.fragment import fragments
from membra.store.collection import Collection

CAMERAS = 10


def drawn(
    home: Path, *, manuscripts: int, mates: int, singles: int, seed: int = 0, cameras: int = CAMERAS
) -> Collection:
    """Draw, describe and store in `home` `manuscripts` of about `mates` fragments each, and `singles` of one.

    The table has the truth in its columns `join`, `leaf` and `camera`. Consecutive leaves of a manuscript are
    photographed by consecutive `cameras`: with fewer cameras than mates, some mates share one.
    """
    path = home / f"drawn-{manuscripts}-{mates}-{singles}-{cameras}-{seed}"
    if path.exists():
        return Collection.open(path)
    progress(f"drawing {manuscripts * mates + singles} fragments ...")
    together = scribes.collection(
        home / "several", manuscripts=manuscripts, fragments=manuscripts * mates, cameras=cameras, seed=seed
    )
    alone = scribes.collection(
        home / "alone", manuscripts=singles, fragments=2 * singles, cameras=cameras, seed=seed + 1000
    )
    tables = [_kept(together, once=False), _kept(alone, once=True)]
    shutil.rmtree(path.with_suffix(".unfinished"), ignore_errors=True)
    collection = Collection.create(path.with_suffix(".unfinished"))
    for table in tables:
        collection.add(fragments(table), workers=processors(), progress=_said)
    collection.path.rename(path)
    return Collection.open(path)


def _kept(table: Path, *, once: bool) -> Path:
    """Write the table with unique ids, with all fragments of each manuscript or only the first."""
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    seen: set[str] = set()
    kept = []
    for row in rows:
        if not (once and row["join"] in seen):
            kept.append(
                {**row, "join": f"{table.parent.name}-{row['join']}", "leaf": f"{table.parent.name}-{row['leaf']}"}
            )
        seen.add(row["join"])
    into = table.parent / f"{table.parent.name}.csv"
    for row in kept:  # make names unique across the two folders
        image = table.parent / row["image"]
        named = image.with_name(f"{table.parent.name}-{image.name}")
        image.rename(named)
        row["image"] = f"images/{named.name}"
    with into.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(kept[0]))
        writer.writeheader()
        writer.writerows(kept)
    return into


def _said(done: int, of: int) -> None:
    if done % 20 == 0:
        progress(f"{done} of {of} described")
