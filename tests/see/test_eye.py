"""Tests of the eye: tiles give the same output as one run, at any size; it finds drawn ink; rejects other files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from membra import scribes
from membra.describe import encoder
from membra.errors import MembraError
from membra.see import eye
from membra.see.eye import READY, STRIDE, Eye, Look, open_eye, ready_digest, ready_eye
from membra.see.session import MAX_BYTES

SHIPPED = pytest.mark.skipif(not READY.exists(), reason="the eye does not come with this checkout")

Picture = NDArray[np.uint8]


def model(
    nodes: list[Any], sides: tuple[int | str, ...] = (1, 3, "h", "w"), kind: int = TensorProto.FLOAT, **constants: Any
) -> bytes:
    """Serialise a network from `photograph` to `maps` and `fields` as ONNX."""
    graph = helper.make_graph(
        nodes,
        "made",
        [helper.make_tensor_value_info("photograph", kind, sides)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("maps", "fields")],
        initializer=[numpy_helper.from_array(np.array(value), name) for name, value in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    return bytes(made.SerializeToString())


TWO: dict[str, Any] = {"begin": [0], "two": [2], "axis": [1]}  # the first two colours
MAPS = helper.make_node("Slice", ["photograph", "begin", "two", "axis"], ["maps"])
FIELDS = helper.make_node("AveragePool", ["photograph"], ["fields"], kernel_shape=[STRIDE] * 2, strides=[STRIDE] * 2)


def window() -> Eye:
    """Make an eye that returns the picture: red is ink, green is surface, and the fields are means of colours."""
    return Eye(model([MAPS, FIELDS], **TWO), threads=1)


def noise(high: int, wide: int, seed: int = 0) -> Picture:
    return np.random.default_rng(seed).integers(0, 256, (high, wide, 3), dtype=np.uint8)


def same_as(look: Look, picture: Picture) -> bool:
    """Return whether a look is that of a `window` eye at the picture."""
    high, wide = (-(-side // STRIDE) * STRIDE for side in picture.shape[:2])
    missing = (high - picture.shape[0], wide - picture.shape[1])
    whole = np.pad(picture, ((0, missing[0]), (0, missing[1]), (0, 0)), mode="edge")
    cells = whole.reshape(high // STRIDE, STRIDE, wide // STRIDE, STRIDE, 3).mean(axis=(1, 3)) / 255
    return (
        np.array_equal(look.ink, picture[..., 0])
        and np.array_equal(look.surface, picture[..., 1])
        and np.allclose(look.turn, cells[..., :2].transpose(2, 0, 1), atol=1e-5)
        and np.allclose(look.height, 24 * 2 ** cells[..., 2], rtol=1e-5)
    )


@given(st.integers(1, 90), st.integers(1, 90), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_every_pixel_of_any_picture_is_seen_where_it_is(high: int, wide: int, seed: int) -> None:
    picture = noise(high, wide, seed)
    assert same_as(window().look(picture), picture)


@pytest.mark.parametrize("shape", [(1, 1), (15, 17), (641, 30), (640, 640), (1300, 700), (1153, 1025)])
def test_every_pixel_is_seen_where_it_is_through_tiles(shape: tuple[int, int]) -> None:
    picture = noise(*shape)
    assert same_as(window().look(picture), picture)


def test_a_larger_picture_takes_no_larger_tiles() -> None:
    one = window()
    shapes: list[tuple[int, ...]] = []

    class Counted:
        def run(self, outputs: None, inputs: dict[str, NDArray[np.float32]]) -> Any:
            (values,) = inputs.values()
            shapes.append(values.shape[2:])
            return session.run(outputs, inputs)

    session = one._session
    one._session = replace(session, run=Counted().run)
    one.look(noise(1700, 900))
    assert len(shapes) > 4
    assert np.max(shapes) <= eye.TILE
    assert not (np.array(shapes) % STRIDE).any()


@pytest.fixture(scope="module")
def drawn() -> scribes.Drawn:
    """Draw a fragment with letters of 24 px, larger than a tile."""
    camera = replace(scribes.camera(3), letter_height=24.0, background="grey")
    return scribes.fragment(scribes.hand(3), camera, letters=330, seed=3, turn=20.0)


@SHIPPED
def test_tiles_show_what_one_look_shows(drawn: scribes.Drawn, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, columns = drawn.image.shape[:2]
    assert min(rows, columns) > eye.TILE
    tiles = ready_eye().look(drawn.image)
    monkeypatch.setattr(eye, "TILE", 4096)
    whole = ready_eye().look(drawn.image)
    for one, other in ((tiles.ink, whole.ink), (tiles.surface, whole.surface)):
        apart = np.abs(one.astype(int) - other)
        assert apart[:200, :200].max() <= 2, "far from where the tiles meet"
        assert (apart <= 8).mean() > 0.99, "anywhere"
    inked = cv2.resize(whole.ink, whole.height.shape[::-1], interpolation=cv2.INTER_AREA) > 25
    turned = np.linalg.norm(tiles.turn - whole.turn, axis=0)[inked]
    assert np.median(turned) < 0.05
    assert np.median(np.abs(np.log2(tiles.height / whole.height))[inked]) < 0.05


@SHIPPED
@pytest.mark.parametrize("shape", [(1, 1), (15, 17), (641, 30)])
def test_a_look_has_the_size_of_its_picture(shape: tuple[int, int]) -> None:
    look = ready_eye().look(noise(*shape))
    cells = tuple(-(-side // STRIDE) for side in shape)
    assert (look.ink.shape, look.surface.shape) == (shape, shape)
    assert (look.turn.shape, look.height.shape) == ((2, *cells), cells)
    assert [part.dtype for part in (look.ink, look.surface)] == [np.uint8] * 2
    assert [part.dtype for part in (look.turn, look.height)] == [np.float32] * 2
    assert np.isfinite(look.turn).all()
    assert ((look.height >= 3) & (look.height <= 192)).all()


@SHIPPED
def test_what_lies_beyond_the_picture_goes_on_as_its_edge(drawn: scribes.Drawn) -> None:
    cut = np.ascontiguousarray(drawn.image[200:325, 200:338])
    missing = [-side % STRIDE for side in cut.shape[:2]]
    assert all(missing)
    filled = np.pad(cut, ((0, missing[0]), (0, missing[1]), (0, 0)), mode="edge")
    one, other = ready_eye().look(cut), ready_eye().look(filled)
    assert np.array_equal(one.ink, other.ink[: cut.shape[0], : cut.shape[1]])
    assert np.array_equal(one.surface, other.surface[: cut.shape[0], : cut.shape[1]])
    assert np.array_equal(one.turn, other.turn)


@SHIPPED
@pytest.mark.parametrize("negative", [False, True])
def test_ink_and_surface_are_seen_where_they_are(drawn: scribes.Drawn, negative: bool) -> None:
    look = ready_eye().look(255 - drawn.image if negative else drawn.image)
    seen = look.ink > 127
    assert (seen & drawn.ink).sum() > 0.85 * (seen | drawn.ink).sum()
    sheet = look.surface > 127
    assert (sheet & drawn.surface).sum() > 0.95 * (sheet | drawn.surface).sum()


@SHIPPED
def test_the_eye_that_ships_is_opened_once_and_has_its_digest() -> None:
    assert ready_eye() is ready_eye()
    assert ready_eye().digest == ready_digest()
    assert READY.stat().st_size <= MAX_BYTES


@SHIPPED
def test_other_networks_have_another_digest() -> None:
    """By it a collection knows that it was described with another eye."""
    digests = {window().digest, Eye(model([MAPS, FIELDS], **TWO | {"begin": [1], "two": [3]})).digest}
    digests |= {ready_digest(), open_eye(READY).digest}
    assert len(digests) == 4


def refused(path: Path, content: bytes) -> str:
    """Return the error message for a file with this content."""
    path.write_bytes(content)
    with pytest.raises(MembraError) as error:
        open_eye(path)
    return str(error.value)


def strangers() -> dict[str, bytes]:
    """Return contents of files that are no eye, by what is wrong with them."""
    node = helper.make_node
    first = node("Slice", ["photograph", "begin", "two", "axis"], ["first"])
    fine = node("Identity", ["photograph"], ["fields"])
    less = node("Sub", ["photograph", "unit"], ["less"])
    below = node("Slice", ["less", "begin", "two", "axis"], ["maps"])
    root = node("Sqrt", ["less"], ["root"])
    pooled = node("AveragePool", ["root"], ["fields"], kernel_shape=[STRIDE] * 2, strides=[STRIDE] * 2)
    return {
        "empty": b"",
        "random": np.random.default_rng(0).bytes(5000),
        "cut short": model([MAPS, FIELDS], **TWO)[:-40],
        "large": bytes(MAX_BYTES + 1),
        "an encoder": encoder.READY.read_bytes(),
        "other names": model([MAPS, FIELDS], **TWO).replace(b"fields", b"meadow"),
        "maps of another rank": model([node("Flatten", ["photograph"], ["maps"]), FIELDS]),
        "maps as small as fields": model([FIELDS, node("Slice", ["fields", "begin", "two", "axis"], ["maps"])], **TWO),
        "maps of three": model([node("Identity", ["photograph"], ["maps"]), FIELDS]),
        "maps on their side": model([first, node("Transpose", ["first"], ["maps"], perm=[0, 1, 3, 2]), FIELDS], **TWO),
        "maps below 0": model([less, below, FIELDS], unit=np.float32(1), **TWO),
        "fields as large as maps": model([MAPS, fine], **TWO),
        "fields that are no numbers": model([MAPS, less, root, pooled], unit=np.float32(1), **TWO),
        "pictures of one size": model([MAPS, FIELDS], (1, 3, 16, 16), **TWO),
        "other numbers": model([MAPS, FIELDS], kind=TensorProto.DOUBLE, **TWO),
    }


def test_no_other_file_is_an_eye(tmp_path: Path) -> None:
    for name, content in strangers().items():
        said = refused(tmp_path / f"{name}.onnx", content)
        assert said.count(f"{name}.onnx") == 1, said
        assert said.endswith("install membra again"), said
        assert "\n" not in said
        assert ("larger than 6 MB" in said) == (name == "large")


@SHIPPED
def test_an_eye_cut_short_is_refused(tmp_path: Path) -> None:
    content = READY.read_bytes()
    for kept in (100, 100_000, len(content) - 1):
        assert "cut.onnx" in refused(tmp_path / "cut.onnx", content[:kept])


def test_an_eye_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (tmp_path / "missing.onnx", tmp_path):
        with pytest.raises(MembraError, match=f"{path.name}.*install membra again"):
            open_eye(path)
    monkeypatch.setattr(eye, "READY", tmp_path / "missing.onnx")
    with pytest.raises(MembraError, match=r"missing\.onnx"):
        ready_digest.__wrapped__()
