"""Correct how a photograph is read, and describe it again: for the workbench's editor and `membra correct`."""

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
from membra.store.verdicts import Verdicts

_RENUMBERING = ("split", "join", "pieces")  # kinds of corrections

_WITHOUT_EYE = ("drop-letters",)  # the corrections possible with a recipe that does not use the eye


@dataclass(frozen=True)
class Corrected:
    """The result of a correction.

    Attributes
    ----------
    entries : list of Correction
        The entries written; they are on disk.
    fragments : list of str
        Ids of the fragments that the photograph shows now, in reading order.
    described : bool
        Whether the photograph was described again.
    problem : str
        Why it was not, if `describe` was set; the corrections are stored, and the next `index` or `correct` applies
        them.
    renumbered : list of (str, str)
        Pairs with a verdict that name a piece of the photograph whose number may now be another piece's: splitting and
        joining number the pieces anew.
    """

    entries: list[Correction]
    fragments: list[str]
    described: bool
    problem: str = ""
    renumbered: Sequence[tuple[str, str]] = ()


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
    """Correct how a fragment is read, or undo a correction; then describe its photograph again.

    Corrections are stored beside the verdicts, with author and time, and hold until they are undone: through `adapt`,
    `index` and `index --redescribe`, as long as the photograph's bytes stay the same. Coordinates are pixels of the
    photograph as displayed. Without any correction, earlier ones that were not yet applied are applied.

    Parameters
    ----------
    collection : Collection
    id : str
        A fragment's id or shelfmark; the id of a photograph of several pieces means the whole photograph.
    by : str
        Name of the author, stored with the correction.
    turn : float, optional
        Degrees clockwise by which to rotate the photograph so that its writing is upright.
    up : {"top", "right", "bottom", "left"}, optional
        The side of the photograph that the tops of the letters face; the exact angle is measured from the lines.
    crop : four int, optional
        x, y, width, height of the part to keep.
    paint_out : sequence, optional
        Regions without writing: polygons [[x, y], ...] (two points are a rectangle's corners), or strokes
        {"points": [[x, y], ...], "brush": width}.
    drop_letters : sequence, optional
        Detected letters to discard: their numbers from 0, or boxes x, y, width, height.
    split : sequence of (x, y), optional
        Two points of a line that cuts the piece in two, or a polygon around one of the two.
    join : sequence of str, optional
        Other pieces of the photograph to merge with this one, by id or shelfmark.
    pieces : {"one", "auto"}, optional
        Whether the whole photograph is one piece or is split automatically.
    undo : int, optional
        The number of a correction of this photograph to undo.
    note : str
        The reason, as free text.
    describe : bool
        Whether to describe the photograph again at once.

    Returns
    -------
    Corrected

    Raises
    ------
    MembraError
        If the fragment is not in the collection, a region is outside the photograph, or a letter does not exist.
    """
    collection.check_current()
    id = find_id(collection, id)
    entry = _entry(collection, id)
    photograph = entry.fragment.photograph
    corrections = Corrections.open(collection.path)
    wanted = {"turn": turn, "up": up, "crop": crop, "paint-out": paint_out, "split": split, "pieces": pieces}
    fixes = _fixes(collection, entry, id, wanted, drop_letters, join)
    if undo is not None and not any(one.number == undo for one in corrections.history(photograph)):
        raise NotFound("there is no correction {number} of {id}; the history lists the numbers", number=undo, id=id)
    given: list[Correction] = []
    if fixes or undo is not None:
        digest = _readable(entry) if fixes else ""
        given = corrections.give(photograph, entry.fragment.id, digest, fixes, by=by, note=note, undo=undo)
    problem = ""
    if describe:
        try:
            _readable(entry)
            everything = as_sources_say(collection)
            collection.add(photographs(one for one in everything if one.fragment.photograph == photograph))
        except (Unavailable, NotFound) as error:  # another process writes the collection, or the photograph is missing
            if not given:
                raise
            problem = error.message
    renumbered = _decided(collection, photograph) if _renumbers(given, corrections.history(photograph)) else []
    return Corrected(given, fragments_on(collection, photograph), describe and not problem, problem, renumbered)


def history_of(collection: Collection, id: str) -> list[Correction]:
    """Return every correction of a fragment's photograph, oldest first, including undone ones and undos."""
    entry = collection.entry(find_id(collection, id))
    return Corrections.open(collection.path).history(entry.fragment.photograph if entry else id)


def holds(entry: Correction, sha256: str) -> bool:
    """Return whether a correction is in force and was made for a photograph with these bytes."""
    return entry.kind != UNDO and not entry.undone and entry.sha256 == sha256


def fragments_on(collection: Collection, photograph: str) -> list[str]:
    """Return the ids of the fragments on a photograph, in reading order."""
    found = [entry.fragment for entry in collection.entries() if entry.fragment.photograph == photograph]
    return [one.id for one in sorted(found, key=lambda one: one.piece)]


def _renumbers(given: Sequence[Correction], history: Sequence[Correction]) -> bool:
    """Return whether corrections, or those that they undo, number the pieces of their photograph anew."""
    undone = {one.undoes for one in given}
    return any(one.kind in _RENUMBERING for one in [*given, *(one for one in history if one.number in undone)])


def _decided(collection: Collection, photograph: str) -> list[tuple[str, str]]:
    """Return the pairs with a verdict that name the photograph or a piece of it."""
    pairs = Verdicts.open(collection.path).pairs()
    return [pair for pair in pairs if any(id == photograph or id.startswith(f"{photograph}#") for id in pair)]


def _entry(collection: Collection, id: str) -> Entry:
    entry = collection.entry(id)
    if entry is None:
        raise NotFound(
            "{id} is not in {collection}; run `membra list` to see its fragments",
            id=id,
            collection=collection.path.name,
        )
    return entry


def _readable(entry: Entry) -> str:
    """Return the SHA-256 of the photograph's bytes; raise `NotFound` if the file is missing."""
    digest = content_digest(entry.fragment.path)
    if not digest:
        raise NotFound("{file}: the file is gone; restore it first", file=entry.fragment.path)
    return digest


def _fixes(
    collection: Collection,
    entry: Entry,
    id: str,
    wanted: Mapping[str, Any],
    letters: Sequence[int | Sequence[int]],
    join: Sequence[str],
) -> list[Fix]:
    """Build the requested fixes and check them against the photograph and what was detected on it."""
    piece = entry.fragment.piece and entry.fragment.id == id
    where = _outline(collection, entry) if piece else []
    given = {kind: value for kind, value in wanted.items() if value is not None and value not in ((), [])}
    fixes = [fix_of(kind, value, where) for kind, value in given.items()]
    if letters:
        fixes.append(fix_of("drop-letters", _boxes(collection, entry, letters), where))
    if join:
        fixes.append(fix_of("join", _outlines(collection, entry, join)))
    if collection.recipe.ink.threshold != "learned" and any(fix.kind not in _WITHOUT_EYE for fix in fixes):
        raise Incompatible(
            "the recipe `{recipe}` uses photographs unchanged; the only possible correction is to remove letters",
            recipe=collection.recipe.name,
        )
    if fixes:
        _readable(entry)
        width, height = displayed_size(entry.fragment.path)
        for fix in fixes:
            check_inside(fix, width, height)
    # `pieces` applies to the whole photograph, never to one piece.
    return [replace(fix, where=()) if fix.kind == "pieces" else fix for fix in fixes]


def _outline(collection: Collection, entry: Entry) -> list[list[int]]:
    if entry.refused:
        return []
    found: list[list[int]] = collection.description(entry.fragment.id).outline.tolist()
    return found


def _boxes(collection: Collection, entry: Entry, letters: Sequence[int | Sequence[int]]) -> list[list[int]]:
    """Return the boxes of letters given by number or by box; each must be one that was detected."""
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
    """Return the outlines of the pieces to merge, all of one photograph."""
    found = []
    for id in dict.fromkeys([*(find_id(collection, other) for other in others), entry.fragment.id]):
        own = _entry(collection, id)
        if own.fragment.photograph != entry.fragment.photograph or own.fragment.id != id:
            raise Invalid(
                "{id} is not a piece of {photograph}; only pieces of the same photograph can be joined",
                id=id,
                photograph=entry.fragment.photograph,
            )
        outline = _outline(collection, own)
        if len(outline) < 3 or not own.fragment.piece:
            raise Invalid("{id} cannot be joined, because it has no outline", id=id)
        found.append(outline)
    if len(found) < 2:
        raise Invalid("a piece cannot be joined with itself; name another piece")
    return found
