"""Tests of corrections by a person: paint-outs, crops, rotations, splits, joins and dropped letters."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from membra import scribes
from membra.describe.recipe import MEMBRA
from membra.errors import Invalid
from membra.see.eye import ready_eye
from membra.see.fixes import BY_HAND, applies_to, rearranged, without_dropped
from membra.see.read import read_pieces
from membra.see.reading import Reading
from membra.see.split import Pieces
from membra.sources.fix import Fix, box_in, check_inside, fix_of, moved, numbers_in, overlaps, points_in, shapes_in
from turning import turned

LEAF = scribes.fragment(scribes.hand(3), scribes.camera(4), letters=50, seed=5)
HEIGHT, WIDTH = LEAF.image.shape[:2]
read = partial(read_pieces, eye=ready_eye(), settings=MEMBRA.reading, letters=MEMBRA.letters)


@pytest.fixture(scope="module")
def plain() -> Reading:
    return read(LEAF.image)[0]


def centres(boxes: NDArray[np.int32]) -> NDArray[np.float64]:
    return np.asarray(boxes[:, :2] + boxes[:, 2:] / 2)


def test_nothing_corrected_changes_nothing(plain: Reading) -> None:
    np.testing.assert_array_equal(read(LEAF.image, fixes=[])[0].glyphs.patches, plain.glyphs.patches)


@pytest.mark.parametrize("brush", [False, True])
def test_what_is_painted_out_has_no_letters_and_the_rest_keeps_its_own(plain: Reading, brush: bool) -> None:
    middle = HEIGHT // 2
    across = [[0, (middle + HEIGHT) // 2], [WIDTH, (middle + HEIGHT) // 2]]
    shape = {"points": across, "brush": HEIGHT - middle} if brush else [[0, middle], [WIDTH, HEIGHT]]
    found = read(LEAF.image, fixes=[fix_of("paint-out", [shape])])
    assert len(found) == 1, "painting makes no pieces"
    y = centres(found[0].glyphs.boxes)[:, 1]
    assert (y < middle).all()
    above = plain.glyphs.boxes[plain.glyphs.boxes[:, 1] + plain.glyphs.boxes[:, 3] < middle - 10]
    kept = overlaps(above, found[0].glyphs.boxes.astype(np.float64)).max(axis=1) > 0.8
    assert kept.mean() > 0.9
    assert len(above) > 10


def test_a_crop_leaves_what_is_within(plain: Reading) -> None:
    x, y, wide, high = WIDTH // 4, HEIGHT // 4, WIDTH // 2, HEIGHT // 2
    (found,) = read(LEAF.image, fixes=[fix_of("crop", [x, y, wide, high])])
    boxes = found.glyphs.boxes
    assert 5 < len(boxes) < len(plain.glyphs)
    assert (boxes[:, :2] >= [x, y]).all()
    assert (boxes[:, :2] + boxes[:, 2:] <= [x + wide, y + high]).all()
    assert (found.outline >= [x, y]).all()
    assert (found.outline <= [x + wide, y + high]).all()
    # boxes do not change: coordinates are those of the whole photograph
    same = overlaps(boxes, plain.glyphs.boxes.astype(np.float64)).max(axis=1) > 0.6
    assert same.mean() > 0.7


def test_the_angle_that_is_told_is_taken() -> None:
    image, _, _ = turned(LEAF.image, LEAF.boxes, 137.0)
    (found,) = read(image, fixes=[fix_of("turn", 137)])
    assert found.angle == 137.0
    (wrong,) = read(LEAF.image, fixes=[fix_of("turn", -90)])
    assert wrong.angle == 270.0
    (last,) = read(LEAF.image, fixes=[fix_of("turn", 90), fix_of("up", "top")])
    assert last.angle is not None
    assert min(last.angle, 360 - last.angle) <= 4, "the last word holds, and lines tell the rest"
    assert last.legibility > 0.5
    (down,) = read(LEAF.image, fixes=[fix_of("up", "bottom")])
    assert down.angle is not None
    assert abs(down.angle - 180) <= 12


def test_letters_are_clicked_away_by_their_boxes(plain: Reading) -> None:
    boxes = plain.glyphs.boxes[[3, 7]].tolist()
    found = without_dropped(plain, [fix_of("drop-letters", [[boxes[0][0] + 1, *boxes[0][1:]], boxes[1]])])
    assert len(found.glyphs) == len(plain.glyphs) - 2
    assert found.glyphs.dropped[BY_HAND] == 2
    np.testing.assert_array_equal(found.glyphs.patches, np.delete(plain.glyphs.patches, [3, 7], axis=0))
    everything = without_dropped(plain, [fix_of("drop-letters", plain.glyphs.boxes.tolist())])
    assert len(everything.glyphs) == 0


def test_a_piece_is_split_by_a_line_or_a_polygon_and_read_by_itself(plain: Reading) -> None:
    middle = HEIGHT // 2
    above, below = read(LEAF.image, fixes=[fix_of("split", [[0, middle], [WIDTH, middle]])])
    assert len(above.glyphs) + len(below.glyphs) >= len(plain.glyphs) - 8
    assert centres(above.glyphs.boxes)[:, 1].max() <= middle <= centres(below.glyphs.boxes)[:, 1].min()
    ring = [[0, 0], [WIDTH, 0], [WIDTH, middle], [0, middle]]
    by_polygon = read(LEAF.image, fixes=[fix_of("split", ring)])
    assert [len(one.glyphs) for one in by_polygon] == [len(above.glyphs), len(below.glyphs)]
    # and a rotation that was given for one of them applies to that one only
    fixes = [fix_of("split", ring), fix_of("turn", 180, below.outline.tolist())]
    assert [one.angle == 180.0 for one in read(LEAF.image, fixes=fixes)] == [False, True]


def masks(*boxes: tuple[int, int, int, int]) -> Pieces:
    labels = np.zeros((100, 200), np.int32)
    for number, (x, y, wide, high) in enumerate(boxes, start=1):
        labels[y : y + high, x : x + wide] = number
    return Pieces(labels, len(boxes))


def ring(x: int, y: int, wide: int, high: int) -> list[list[int]]:
    return [[x, y], [x + wide, y], [x + wide, y + high], [x, y + high]]


def test_pieces_that_belong_together_are_one_and_the_others_keep_their_order() -> None:
    found = masks((10, 10, 30, 30), (60, 10, 30, 30), (110, 10, 30, 30))
    # corrections are in pixels of the photograph, of which the look has half the size here
    join = fix_of("join", [ring(20, 20, 60, 60), ring(220, 20, 60, 60)])
    made = rearranged(found, 0.5, [join])
    assert made.count == 2
    first, second = made.written()
    assert first[15, 15]
    assert first[15, 115]
    assert not first[15, 75] or second[15, 75]
    again = rearranged(found, 0.5, [join, fix_of("split", [[200, 0], [200, 200]], ring(20, 20, 260, 60))])
    assert again.count == 3
    assert rearranged(found, 0.5, []) is found
    nowhere = fix_of("split", [[0, 0], [1, 0]], ring(20, 20, 60, 60))
    assert rearranged(found, 0.5, [nowhere]).count == 3, "a line beside a piece does not cut it"


def test_a_fix_finds_its_piece_by_where_that_was() -> None:
    within = masks((10, 10, 30, 30)).written()[0]
    assert applies_to(Fix("turn", 90.0), within, 1.0)
    assert applies_to(Fix("turn", 90.0, ((8, 8), (44, 8), (44, 44), (8, 44))), within, 1.0)
    assert applies_to(Fix("turn", 90.0, ((10, 10), (25, 10), (25, 40), (10, 40))), within, 1.0), "it was split since"
    assert not applies_to(Fix("turn", 90.0, ((60, 10), (90, 10), (90, 40), (60, 40))), within, 1.0)


def test_values_are_checked_and_said_in_one_line() -> None:
    assert fix_of("turn", -90).value == 270.0
    assert fix_of("turn", 359.999).value == 0.0
    assert fix_of("paint-out", [[[0, 0], [4, 4]]]).value[0]["points"] == [[0, 0], [4, 0], [4, 4], [0, 4]]
    wrong: list[tuple[str, object]] = [("turn", "x"), ("turn", float("nan")), ("turn", True), ("up", "north")]
    wrong += [("crop", [1, 2, 3]), ("crop", [1, 2, 0, 4]), ("crop", None), ("paint-out", []), ("paint-out", [[[1, 1]]])]
    wrong += [("split", [[1, 1]]), ("split", [[1, 1], [1, 1]]), ("join", [[[0, 0], [1, 1], [2, 0]]]), ("pieces", "two")]
    wrong += [("drop-letters", [[1, 2, 3, -4]]), ("mirror", 1), ("paint-out", [{"points": [[0, 0]], "brush": 10**6}])]
    wrong += [
        ("split", [[0, 1e300], [1, 1]]),
        ("paint-out", [{"brush": 4}]),
        ("split", [[n, n] for n in range(30_000)]),
    ]
    for kind, value in wrong:
        with pytest.raises(Invalid) as caught:
            fix_of(kind, value)
        assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(Invalid, match="outside the photograph, which has 100 x 50 px"):
        check_inside(fix_of("crop", [10, 10, 91, 20]), 100, 50)
    check_inside(fix_of("crop", [0, 0, 100, 50]), 100, 50)


def test_texts_are_read_as_shell_and_page_write_them() -> None:
    assert points_in(" 1,2  3,4 ") == points_in("1,2,3,4") == [[1, 2], [3, 4]]
    assert box_in("1,2,30,40") == [1, 2, 30, 40]
    assert numbers_in("3, 17") == [3, 17]
    assert shapes_in("1,2 3,4 5,6\n\n20: 7,8\n") == [[[1, 2], [3, 4], [5, 6]], {"points": [[7, 8]], "brush": 20}]
    for text in ("", "1,2,3", "a,b", "1,2 inf,4"):
        with pytest.raises(Invalid):
            points_in(text)
    with pytest.raises(Invalid):
        numbers_in("3,-1")


def test_moved_there_and_back_it_is_the_same() -> None:
    fixes = [fix_of("crop", [5, 6, 7, 8], ring(1, 2, 3, 4)), fix_of("drop-letters", [[1, 2, 3, 4]]), fix_of("turn", 5)]
    fixes += [fix_of("join", [ring(1, 2, 3, 4)] * 2), fix_of("split", [[1, 2], [3, 4]]), fix_of("pieces", "one")]
    fixes += [fix_of("paint-out", [{"points": [[9, 9]], "brush": 3}])]
    for fix in fixes:
        assert moved(moved(fix, 10, -20), -10, 20) == fix
        assert replace(moved(fix, 1, 1), number=4).number == 4


def test_an_empty_piece_within_another_one_is_left_out_of_a_rearrangement() -> None:
    labels = np.zeros((60, 80), np.int32)
    labels[5:55, 5:75] = 1  # the second piece lay in a hole of the first, which was filled
    found = rearranged(Pieces(labels, 2), 1.0, [fix_of("split", [[40, 0], [40, 60]])])
    assert [int(mask.any()) for mask in found.written()] == [1, 1]
