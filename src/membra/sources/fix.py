"""A person's corrections of what is seen on a photograph: rotation, areas and letters to leave out, pieces.

Pixels are those of the photograph as displayed, x before y.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from membra.errors import Invalid

# The value of each kind, as in JSON.
KINDS = {
    "turn": "degrees clockwise by which the photograph is to be turned, 0 <= degrees < 360",
    "up": "the side of the photograph where the top of the letters is; by how much they are turned, lines tell",
    "crop": "[x, y, width, height]",
    "paint-out": '[{"points": [[x, y], ...], "brush": width}, ...]; brush 0: all that is within',
    "drop-letters": "[[x, y, width, height], ...] of the letters that are none",
    "split": "[[x, y], ...]: two points of a line, or three and more of a polygon around one of the two pieces",
    "join": "[[[x, y], ...], ...]: outlines of the pieces that are one",
    "pieces": "one: all of the photograph is one piece; auto: as they are seen",
}
SIDES = {"top": 0.0, "left": 90.0, "bottom": 180.0, "right": 270.0}  # degrees clockwise that set the writing upright
MAX_POINTS = 20_000  # in one fix
MAX_BRUSH = 10_000  # px
SAME = 0.5  # intersection over union of two boxes, from which they are of one letter

Point = tuple[int, int]
# These can create or remove pieces; the others leave the pieces of a photograph as they are.
STRUCTURAL = ("crop", "split", "join", "pieces")


@dataclass(frozen=True)
class Fix:
    """One correction of what is seen on a photograph. `KINDS` defines the value of each kind."""

    kind: str
    value: Any  # as in JSON
    where: tuple[Point, ...] = ()  # outline of the piece that it applies to; empty: the whole photograph
    number: int = 0  # its number in the collection

    @property
    def structural(self) -> bool:
        """Whether it can change which pieces there are."""
        return self.kind in STRUCTURAL and not (self.kind == "crop" and self.where)


def fix_of(kind: str, value: Any, where: Sequence[Sequence[int]] = ()) -> Fix:
    """Make a fix of a validated value; raises `Invalid` with the reason where it does not match the kind."""
    try:
        checked = _VALUES[kind](value)
    except KeyError:
        raise Invalid("a correction is one of {kinds}, not {kind}", kinds=list(KINDS), kind=repr(kind)[:40]) from None
    except (TypeError, ValueError, OverflowError):
        raise Invalid("the value of {kind} is not valid: {value}", kind=kind, value=repr(value)[:80]) from None
    fix = Fix(kind, checked, tuple((int(x), int(y)) for x, y in where))
    if sum(len(points) for points in regions(fix)) > MAX_POINTS:
        raise Invalid("{kind} can have at most {most} points; draw a simpler shape", kind=kind, most=MAX_POINTS)
    return fix


def regions(fix: Fix) -> list[list[Point]]:
    """Return the points of each region that a fix names, as polygons; for a rectangle its two corners."""
    if fix.kind == "crop":
        return [_corners(fix.value)]
    if fix.kind == "paint-out":
        return [[(x, y) for x, y in shape["points"]] for shape in fix.value]
    if fix.kind == "drop-letters":
        return [_corners(box) for box in fix.value]
    if fix.kind == "split":
        return [[(x, y) for x, y in fix.value]]
    if fix.kind == "join":
        return [[(x, y) for x, y in outline] for outline in fix.value]
    return []


def check_inside(fix: Fix, width: int, height: int) -> None:
    """Raise `Invalid` where a region of a fix, `join` excepted, is outside a photograph of this size."""
    for points in regions(fix) if fix.kind != "join" else []:
        for x, y in points:
            if not (0 <= x <= width and 0 <= y <= height):
                raise Invalid(
                    "{kind}: {point} is outside the photograph, which has {width} x {height} px",
                    kind=fix.kind,
                    point=f"{x},{y}",
                    width=width,
                    height=height,
                )


def moved(fix: Fix, x: int, y: int) -> Fix:
    """Translate a fix by x, y: to a photograph whose first pixel is at -x, -y of the other."""
    value: Any = fix.value
    if fix.kind == "crop":
        value = _moved_box(value, x, y)
    elif fix.kind == "paint-out":
        value = [{**shape, "points": _moved_points(shape["points"], x, y)} for shape in value]
    elif fix.kind == "drop-letters":
        value = [_moved_box(box, x, y) for box in value]
    elif fix.kind == "split":
        value = _moved_points(value, x, y)
    elif fix.kind == "join":
        value = [_moved_points(outline, x, y) for outline in value]
    return replace(fix, value=value, where=tuple((a + x, b + y) for a, b in fix.where))


def points_in(text: str) -> list[list[int]]:
    """Parse points of a text such as `10,20 30,40` or `10,20,30,40`.

    >>> points_in("10,20 30,40")
    [[10, 20], [30, 40]]
    """
    found = re.split(r"[\s,;]+", text.strip())
    try:
        numbers = [_whole(float(one)) for one in found]
    except (ValueError, OverflowError):
        numbers = []
    if not numbers or len(numbers) % 2:
        raise Invalid("{text} is not a list of points; write x,y x,y and so on, in pixels", text=repr(text[:60]))
    return [list(pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]


def stroke_in(text: str) -> dict[str, Any]:
    """Parse a brush stroke of a text such as `20:10,20 30,40`: its width, and points.

    >>> stroke_in("20:10,20 30,40")
    {'points': [[10, 20], [30, 40]], 'brush': 20}
    """
    width, colon, points = text.partition(":")
    if not colon or not re.fullmatch(r"\s*[0-9]{1,5}\s*", width):
        raise Invalid("{text} is not a brush stroke; write width:x,y x,y and so on", text=repr(text[:60]))
    return {"points": points_in(points), "brush": int(width)}


def shapes_in(text: str) -> list[Any]:
    """Parse polygons and brush strokes, one per line; empty lines are skipped."""
    lines = [line for line in text.splitlines() if line.strip()]
    return [stroke_in(line) if ":" in line else points_in(line) for line in lines]


def box_in(text: str) -> list[int]:
    """Parse a rectangle of a text such as `10,20,300,400`: x, y, width, height."""
    try:
        (x, y), (wide, high) = points_in(text)
    except (ValueError, Invalid):
        raise Invalid("{text} is not a rectangle; write x,y,width,height in pixels", text=repr(text[:60])) from None
    return [x, y, wide, high]


def numbers_in(text: str) -> list[int]:
    """Parse whole numbers of a text such as `3,17`."""
    found = re.findall(r"[^\s,;]+", text)
    if not all(re.fullmatch(r"[0-9]{1,9}", one) for one in found):
        raise Invalid(
            "{text} is not a list of letter numbers; write numbers separated by commas, e.g. 3,17", text=repr(text[:60])
        )
    return [int(one) for one in found]


def overlaps(boxes: NDArray[np.int32], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the intersection over union (n, m) of boxes (n, 4) and others (m, 4), each x, y, width, height."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum((boxes[:, :2] + boxes[:, 2:])[:, None], (others[:, :2] + others[:, 2:])[None])
    shared = np.prod(np.maximum(high - low, 0), axis=2, dtype=np.float64)
    areas = np.prod(boxes[:, 2:], axis=1, dtype=np.float64)[:, None] + np.prod(others[:, 2:], axis=1)[None]
    return np.asarray(shared / np.maximum(areas - shared, 1.0), np.float64)


def _corners(box: Sequence[int]) -> list[Point]:
    x, y, wide, high = box
    return [(x, y), (x + wide, y + high)]


def _moved_box(box: Sequence[int], x: int, y: int) -> list[int]:
    return [box[0] + x, box[1] + y, box[2], box[3]]


def _moved_points(points: Sequence[Sequence[int]], x: int, y: int) -> list[list[int]]:
    return [[a + x, b + y] for a, b in points]


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not math.isfinite(value) or abs(value) > 1e7:
        raise ValueError(value)
    return round(float(value))


def _degrees(value: Any) -> float:
    if isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(value)
    return round(float(value) % 360.0, 2) % 360.0


def _choice(*among: str) -> Any:
    def choose(value: Any) -> str:
        if value not in among:
            raise ValueError(value)
        return str(value)

    return choose


def _box(value: Any) -> list[int]:
    x, y, wide, high = map(_whole, value)
    if wide < 1 or high < 1:
        raise ValueError(value)
    return [x, y, wide, high]


def _boxes(value: Any) -> list[list[int]]:
    return _some([_box(box) for box in value])


def _points(value: Any, least: int = 2) -> list[list[int]]:
    found = [[_whole(x), _whole(y)] for x, y in value]
    if len(found) < least or len({tuple(point) for point in found}) < min(least, 2):
        raise ValueError(value)
    return found


def _shapes(value: Any) -> list[dict[str, Any]]:
    """Validate polygons and brush strokes; two points without a brush are corners of a rectangle."""
    found = []
    for shape in value:
        brush = _whole(shape.get("brush", 0)) if isinstance(shape, dict) else 0
        given = shape["points"] if isinstance(shape, dict) else shape
        points = _points(given, 1 if brush else 2)
        if not 0 <= brush <= MAX_BRUSH:
            raise ValueError(brush)
        if not brush and len(points) == 2:
            (left, top), (right, bottom) = points
            points = [[left, top], [right, top], [right, bottom], [left, bottom]]
        found.append({"points": points, "brush": brush})
    return _some(found)


def _outlines(value: Any) -> list[list[list[int]]]:
    found = [_points(outline, 3) for outline in value]
    if len(found) < 2:
        raise ValueError(value)
    return found


def _some(found: list[Any]) -> list[Any]:
    if not found:
        raise ValueError("nothing")
    return found


_VALUES: dict[str, Any] = {
    "turn": _degrees,
    "up": _choice(*SIDES),
    "crop": _box,
    "paint-out": _shapes,
    "drop-letters": _boxes,
    "split": _points,
    "join": _outlines,
    "pieces": _choice("one", "auto"),
}
