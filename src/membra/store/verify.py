"""Verify every byte of a collection, and report problems with their remedies."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from membra.compare.local_scaling import REFERENCES
from membra.describe.recipe import Recipe
from membra.errors import MembraError, Unreadable
from membra.messages import Message
from membra.progress import Progress
from membra.store import manifest
from membra.store.annotations import FILE as ANNOTATIONS
from membra.store.annotations import Annotations
from membra.store.corrections import FILE as CORRECTIONS
from membra.store.corrections import Corrections, applied, fixes_for
from membra.store.histograms import check_codebooks
from membra.store.neighbour_lists import damaged_lists
from membra.store.open_files import scales_file
from membra.store.placements import FILE as PLACEMENTS
from membra.store.placements import Placements
from membra.store.scales import read_scales
from membra.store.shard import Shard, open_shard
from membra.store.tensors import content_name, damaged
from membra.store.verdicts import FILE as VERDICTS
from membra.store.verdicts import Verdicts
from membra.store.writer import content_digest, encoder_name, named_files, orphans


@dataclass(frozen=True)
class Verified:
    """The result of a verification.

    Attributes
    ----------
    fragments, shards : int
        Their number in the collection.
    wrong : list of str
        Problems, each with its remedy.
    notes : list of str
        Remarks that need no action.
    """

    fragments: int
    shards: int
    wrong: list[str]
    notes: list[str]


def verify(path: str | Path, *, progress: Progress | None = None) -> Verified:
    """Read everything in a collection, verify its checksums, and check that its parts are consistent.

    Parameters
    ----------
    path : path
        The collection's folder, which may be too damaged to open.
    progress : Progress, optional
        Called with the number of shards done and the total.

    Returns
    -------
    Verified
        Problems, each with its remedy, and remarks.
    """
    path = Path(path)
    while True:
        with manifest.connect(path) as database:
            found = _verify(path, database, progress)
            if not found.wrong or _unchanged(path, database):
                return found  # otherwise a writer replaced files while they were read: verify again


def _verify(path: Path, database: sqlite3.Connection, progress: Progress | None) -> Verified:
    shards = manifest.shards(database)
    wrong = [f"the manifest: {said}; restore it from a copy" for said in _integrity(database)]
    wrong += [*_encoder(path, database), *Corrections(path / CORRECTIONS).wrong()]
    wrong += [*Annotations(path / ANNOTATIONS).wrong(), *Verdicts(path / VERDICTS).wrong()]
    wrong += Placements(path / PLACEMENTS).wrong()
    locations = _locations(database)
    for done, (record, numbers) in enumerate(shards):
        if progress:
            progress(done, len(shards))
        try:
            if content_name(path / "shards" / record.name) != record.name:
                raise damaged(record.name, Message("its content does not match its name"))
            shard = open_shard(path / "shards", record, whole=True)
        except Unreadable as error:
            what, why = error.values["file"], error.values["why"]
            wrong.append(f"{what} cannot be read ({why}); restore it from a copy, or index again into a new folder")
            continue
        except MembraError as error:
            wrong.append(str(error))
            continue
        wrong += [f"{record.name}: {said}; index again into a new folder" for said in _shard(shard, numbers, locations)]
    lost = set(locations) - {int(number) for _, numbers in shards for number in numbers}
    wrong += [f"fragment number {number} is in no shard; remove it and index again" for number in sorted(lost)[:5]]
    (count,) = database.execute("SELECT count(*) FROM fragments").fetchone()
    notes = [*_scales(path, database), *check_codebooks(path, database), *damaged_lists(path)]
    notes += [*_pending(database), *_uncorrected(path, database), *_orphans(path, database)]
    return Verified(count, len(shards), wrong, notes)


def _integrity(database: sqlite3.Connection) -> list[str]:
    return [said for (said,) in database.execute("PRAGMA integrity_check(5)") if said != "ok"]


def _encoder(path: Path, database: sqlite3.Connection) -> list[str]:
    recipe = Recipe.from_json(manifest.read_meta(database)["recipe"])
    digest = content_digest(path / encoder_name(recipe))
    if digest == recipe.encoder:
        return []
    return [f"{encoder_name(recipe)} is {'another' if digest else 'lost'}; restore it from a copy, or index again"]


def _locations(database: sqlite3.Connection) -> dict[int, tuple[str, int, int]]:
    """Return shard, row and number of glyphs of each described fragment, by the fragment's number."""
    rows = database.execute("SELECT number, shard, place, glyphs FROM fragments WHERE refused = ''")
    return {number: (shard, row, glyphs) for number, shard, row, glyphs in rows}


def _shard(shard: Shard, numbers: manifest.Numbers, locations: dict[int, tuple[str, int, int]]) -> Iterator[str]:
    """Yield the first inconsistency between the manifest and a shard whose checksums are correct."""
    if len(shard) != len(numbers):
        yield f"it holds {len(shard)} fragments, and the manifest knows {len(numbers)}"
        return
    glyph_counts = np.diff(shard.arrays["glyph_offsets"])
    for row, number in enumerate(numbers.tolist()):
        if number and locations.get(number) != (shard.name, row, int(glyph_counts[row])):
            yield f"the fragment at place {row} is not the one that the manifest names"
            return
        if number:
            shard.description(row)


def _scales(path: Path, database: sqlite3.Connection) -> list[str]:
    record = scales_file(database)
    scales = read_scales(path, record) if record else None
    described = np.array([n for (n,) in database.execute("SELECT number FROM fragments WHERE refused = ''")])
    if record and scales is None:
        return [f"{record.name} is damaged or lost; searches measure it again, and the next change stores it anew"]
    if scales is None:
        return []
    chosen = manifest.reference_numbers(database, REFERENCES)
    same = np.array_equal(scales.numbers, np.sort(described)) and np.array_equal(scales.references, chosen)
    return [] if same else ["the local scales are behind the fragments; searches measure what is missing"]


def _pending(database: sqlite3.Connection) -> list[str]:
    (parts,) = database.execute("SELECT count(*) FROM pending").fetchone()
    return [f"{parts} parts of it are described anew already; `membra index --redescribe` goes on"] if parts else []


def _uncorrected(path: Path, database: sqlite3.Connection) -> list[str]:
    """Report photographs that were corrected but not described again."""
    corrections = Corrections(path / CORRECTIONS)
    if corrections.wrong():
        return []
    standing = corrections.standing()
    rows = database.execute("SELECT DISTINCT photograph, sha256, corrected FROM fragments").fetchall()
    behind = sum(applied(fixes_for(standing, one, sha256)) != corrected for one, sha256, corrected in rows)
    return [f"{behind} photographs were corrected and not described again; `membra correct` does it"] if behind else []


def _orphans(path: Path, database: sqlite3.Connection) -> list[str]:
    left = sorted(set(orphans(path)) - named_files(database))
    if not left:
        return []
    more = f" and {len(left) - 1} more" if len(left) > 1 else ""
    return [f"{left[0]}{more}: left by a membra that was killed, or being written; `membra compact` removes them"]


def _unchanged(path: Path, database: sqlite3.Connection) -> bool:
    with manifest.connect(path) as now:
        return named_files(now) == named_files(database)
