"""Correct what is seen on a photograph, and describe it again: what the workbench's editor and `membra correct` do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from membra.errors import Incompatible, Invalid, NotFound, Unavailable
from membra.files import content_digest
from membra.sources.fix import SAME, Fix, check_inside, fix_of, overlaps
from membra.sources.photograph import displayed_size
from membra.store.collection import Collection, Entry
from membra.store.corrections import UNDO, Correction, Corrections
from membra.store.naming import find_id
from membra.store.redescribe import as_sources_say, photographs

_RULES = ("drop-letters",)  # what can be corrected where no eye looks


@dataclass(frozen=True)
class Corrected:
    """What became of a correction.

    Attributes
    ----------
    entries : list of Correction
        What was written; it is on the disk.
    fragments : list of str
        Ids of the fragments that the photograph shows now, in reading order.
    described : bool
        Whether the photograph was described again.
    problem : str
        Why not, where that was asked for; the corrections are kept, and the next `index` or `correct` applies them.
    """

    entries: list[Correction]
    fragments: list[str]
    described: bool
    problem: str = ""


def correct(
    collection: Collection,
    id: str,
    *,
    by: str,
    turn: float | None = None,
    up: str | None = None,
    crop: Sequence[int] | None = None,
    paint_out: Sequence[Any] = (),
    drop_letters: Sequence[int | Sequence[int]] = (),
    split: Sequence[Sequence[int]] = (),
    join: Sequence[str] = (),
    pieces: str | None = None,
    undo: int | None = None,
    note: str = "",
    describe: bool = True,
) -> Corrected:
    """Correct what is seen on a fragment, or take a correction back; then describe its photograph again.

    Corrections are kept beside the verdicts, with who and when, and hold until they are taken back: through `adapt`,
    `index` and `index --redescribe`, for as long as the photograph's bytes are the same. All are in pixels of the
    photograph as displayed. Without any, what was corrected before is applied if it is not yet.

    Parameters
    ----------
    collection : Collection
    id : str
        A fragment's id or shelfmark; the id of a photograph of several pieces means all of it.
    by : str
        Who says so; kept with the correction.
    turn : float, optional
        Degrees clockwise by which the photograph is to be turned for its writing to stand upright.
    up : {"top", "right", "bottom", "left"}, optional
        The side of the photograph where the top of the letters is; lines tell by how much they are turned.
    crop : four int, optional
        x, y, width, height of the part that counts.
    paint_out : sequence, optional
        Regions that are no writing: polygons [[x, y], ...] (with two points a rectangle's corners), or strokes
        {"points": [[x, y], ...], "brush": width}.
    drop_letters : sequence, optional
        Letters that are none: their numbers from 0, or boxes x, y, width, height.
    split : sequence of (x, y), optional
        Two points of a line that cuts the piece in two, or a polygon around one of the two.
    join : sequence of str, optional
        Other pieces of the photograph that belong to this one, by id or shelfmark.
    pieces : {"one", "auto"}, optional
        Whether all of the photograph is one piece.
    undo : int, optional
        The number of a correction of this photograph to take back.
    note : str
        Why, in the scholar's own words.
    describe : bool
        Whether to describe the photograph again at once.

    Returns
    -------
    Corrected

    Raises
    ------
    MembraError
        Where the fragment is not in the collection, a region is outside the photograph, or there is no such letter.
    """
    collection.check_current()
    id = find_id(collection, id)
    entry = _entry(collection, id)
    photograph = entry.fragment.photograph
    corrections = Corrections.open(collection.path)
    given: list[Correction] = []
    wanted = {"turn": turn, "up": up, "crop": crop, "paint-out": paint_out, "split": split, "pieces": pieces}
    fixes = _fixes(collection, entry, id, wanted, drop_letters, join)
    if fixes:
        digest = _readable(entry)
        given = corrections.give(photograph, entry.fragment.id, digest, fixes, by=by, note=note)
    if undo is not None:
        if not any(one.number == undo for one in corrections.history(photograph)):
            raise NotFound("there is no correction {number} of {id}; the history has the numbers", number=undo, id=id)
        given.append(corrections.undo(undo, by=by, note=note))
    problem = ""
    if describe:
        try:
            _readable(entry)
            everything = as_sources_say(collection)
            collection.add(photographs(one for one in everything if one.fragment.photograph == photograph))
        except (Unavailable, NotFound) as error:  # the collection is being written, or the photograph is away
            if not given:
                raise
            problem = error.message
    return Corrected(given, fragments_on(collection, photograph), describe and not problem, problem)


def history_of(collection: Collection, id: str) -> list[Correction]:
    """Every correction of a fragment's photograph, oldest first, those taken back and the undos too."""
    entry = collection.entry(find_id(collection, id))
    return Corrections.open(collection.path).history(entry.fragment.photograph if entry else id)


def holds(entry: Correction, sha256: str) -> bool:
    """Whether a correction stands, and is for a photograph with these bytes."""
    return entry.kind != UNDO and not entry.undone and entry.sha256 == sha256


def fragments_on(collection: Collection, photograph: str) -> list[str]:
    """Ids of the fragments that a photograph shows, in reading order."""
    found = [entry.fragment for entry in collection.entries() if entry.fragment.photograph == photograph]
    return [one.id for one in sorted(found, key=lambda one: one.piece)]


def _entry(collection: Collection, id: str) -> Entry:
    entry = collection.entry(id)
    if entry is None:
        raise NotFound(
            "{id} is not in {collection}; `membra list` shows what is", id=id, collection=collection.path.name
        )
    return entry


def _readable(entry: Entry) -> str:
    """The SHA-256 of the photograph's bytes, which must be there."""
    digest = content_digest(entry.fragment.path)
    if not digest:
        raise NotFound("{file}: the file is gone; bring it back first", file=entry.fragment.path)
    return digest


def _fixes(
    collection: Collection,
    entry: Entry,
    id: str,
    wanted: Mapping[str, Any],
    letters: Sequence[int | Sequence[int]],
    join: Sequence[str],
) -> list[Fix]:
    """What was asked for, checked against the photograph and what is seen on it."""
    piece = entry.fragment.piece and entry.fragment.id == id
    where = _outline(collection, entry) if piece else []
    given = {kind: value for kind, value in wanted.items() if value is not None and value not in ((), [])}
    fixes = [fix_of(kind, value, where) for kind, value in given.items()]
    if letters:
        fixes.append(fix_of("drop-letters", _boxes(collection, entry, letters), where))
    if join:
        fixes.append(fix_of("join", _outlines(collection, entry, join)))
    if collection.recipe.ink.threshold != "learned" and any(fix.kind not in _RULES for fix in fixes):
        raise Incompatible(
            "the recipe `{recipe}` takes photographs as they are; only letters can be taken out",
            recipe=collection.recipe.name,
        )
    if fixes:
        _readable(entry)
        width, height = displayed_size(entry.fragment.path)
        for fix in fixes:
            check_inside(fix, width, height)
    # What is about all of the photograph is never about a piece of it.
    return [replace(fix, where=()) if fix.kind == "pieces" else fix for fix in fixes]


def _outline(collection: Collection, entry: Entry) -> list[list[int]]:
    if entry.refused:
        return []
    found: list[list[int]] = collection.description(entry.fragment.id).outline.tolist()
    return found


def _boxes(collection: Collection, entry: Entry, letters: Sequence[int | Sequence[int]]) -> list[list[int]]:
    """The boxes of letters, given by number or by box; each must be one that is there."""
    boxes = collection.description(entry.fragment.id).boxes
    found = []
    for letter in letters:
        if isinstance(letter, int):
            if not 0 <= letter < len(boxes):
                raise Invalid(
                    "{id} has {count} letters, numbered from 0; there is no letter {number}",
                    id=entry.fragment.id,
                    count=len(boxes),
                    number=letter,
                )
            found.append(boxes[letter].tolist())
            continue
        (box,) = fix_of("drop-letters", [list(letter)]).value
        same = overlaps(boxes, np.array([box], np.float64))[:, 0] if len(boxes) else np.zeros(1)
        if same.max() < SAME:
            at = ",".join(map(str, box))
            raise Invalid("{id} has no letter at {box}; load the page again", id=entry.fragment.id, box=at)
        found.append(boxes[int(same.argmax())].tolist())
    return found


def _outlines(collection: Collection, entry: Entry, others: Sequence[str]) -> list[list[list[int]]]:
    """The outlines of pieces that are to be one; all of one photograph."""
    found = []
    for id in dict.fromkeys([*(find_id(collection, other) for other in others), entry.fragment.id]):
        own = _entry(collection, id)
        if own.fragment.photograph != entry.fragment.photograph or own.fragment.id != id:
            raise Invalid(
                "{id} is no piece of {photograph}; only pieces of one photograph can be one",
                id=id,
                photograph=entry.fragment.photograph,
            )
        outline = _outline(collection, own)
        if len(outline) < 3 or not own.fragment.piece:
            raise Invalid("{id} has no outline by which it could be joined", id=id)
        found.append(outline)
    if len(found) < 2:
        raise Invalid("one piece cannot be joined with itself; name another")
    return found
