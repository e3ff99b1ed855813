"""Decide which fragments keep their number when described again, and which stay removed."""

import itertools
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from membra.store.corrections import FILE, Corrections
from membra.store.manifest import FragmentRow


def numbered(
    rows: Sequence[FragmentRow], before: Sequence[tuple[int, str, str, str, str]], first: int, same_eyes: bool
) -> dict[str, int]:
    """Return the number of each row by id, given (number, id, photograph, sha256, corrected) of the fragments `before`:
    its previous number, or a new one from `first` on; 0 for a row that must not be written. With the same eye, image
    and corrections the pieces are the same too, so a piece that was missing before had been removed by hand."""
    known = {id: number for number, id, *_ in before}
    again = {row.photograph for row in rows if row.id in known}
    same = {tuple(one) for _, _, *one in before if same_eyes and one[0] in again}
    fresh = itertools.count(first)
    found = {}
    for row in rows:
        taken_out = row.id not in known and (row.photograph, row.sha256, row.corrected) in same
        found[row.id] = 0 if taken_out else known.get(row.id) or next(fresh)
    return found


def taken_out(folder: Path, database: sqlite3.Connection, rows: Sequence[FragmentRow]) -> set[str]:
    """Return the ids of pieces that were removed by hand, among the `rows` of a photograph described again after a
    correction: they are not in the manifest, although image and piece-changing corrections are the same as before."""
    if not (folder / FILE).exists():
        return set()
    changing = {entry.number for entry in Corrections(folder / FILE).history() if entry.fix.structural}
    question = "SELECT id, photograph, sha256, corrected FROM fragments WHERE photograph = ?"
    before = [row for one in {row.photograph for row in rows} for row in database.execute(question, (one,))]
    known = {id for id, *_ in before}
    same = {(photograph, sha256, _pieces_by(corrected, changing)) for _, photograph, sha256, corrected in before}
    again = {row.photograph for row in rows if row.id in known}
    return {
        row.id
        for row in rows
        if row.id not in known
        and row.photograph in again
        and (row.photograph, row.sha256, _pieces_by(row.corrected, changing)) in same
    }


def _pieces_by(corrected: str, changing: set[int]) -> str:
    """Return those of a fragment's applied corrections that can change how its photograph is split into pieces."""
    return ",".join(number for number in corrected.split(",") if number and int(number) in changing)
