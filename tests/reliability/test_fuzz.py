"""Strangers' files, damaged at random: every reader gives what it can read, or one sentence; never anything else.

In CI each reader gets a few hundred files. For longer: MEMBRA_LENGTH=full pytest tests/reliability/test_fuzz.py gives
each reader a minute and a half; the file that is being read is kept as `fuzzed` in the test's folder, so that even one
that ends the process can be looked at. docs/fuzzing.md says what was found.
"""

import csv
import dataclasses
import json
import random
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.numpy import save

import manifests
from factories import random_encoder, stored
from lengths import LENGTH, length
from library import Library
from membra.describe.encoder import Encoder
from membra.describe.graph import weights_of
from membra.errors import MembraError, Refused
from membra.judge.joins import read_joins
from membra.sources.fetch import read_json
from membra.sources.fragment import fragments
from membra.sources.iiif import Limits, read_canvases
from membra.sources.image_api import image_urls, read_service
from membra.sources.photograph import read_photograph
from membra.store.collection import Collection
from membra.store.shard import open_shard
from membra.store.tensors import FileRecord

pytestmark = [pytest.mark.long] if LENGTH == "full" else []
MINUTES = length(0.0, 0.0, 1.5)  # for each reader; 0: a few hundred files
SLOW = 20.0  # seconds of processor time: no small file may take so long
ODD = (b"\0", b"\xff", b"\x7f", b"\x80", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f")


def damaged(seeds: Sequence[bytes], draw: random.Random) -> bytes:
    """One of `seeds` after a few random accidents, more of them near its head than elsewhere."""
    content = bytearray(draw.choice(seeds))
    for _ in range(draw.choice((1, 1, 2, 3, 5, 9, 20))):
        near = draw.choice((40, 200, 1000, len(content)))
        at = draw.randrange(max(1, min(len(content), near) + 1))
        at = len(content) - at if draw.random() < 0.1 else at
        accident = draw.randrange(7)
        if accident == 0 and content:
            content[min(at, len(content) - 1)] = draw.randrange(256)
        elif accident == 1 and content:
            content[min(at, len(content) - 1)] ^= 1 << draw.randrange(8)
        elif accident == 2:
            odd = draw.choice(ODD)
            content[at : at + len(odd)] = odd
        elif accident == 3:
            del content[at : at + draw.choice((1, 2, 4, 16, 300))]
        elif accident == 4:
            content[at:at] = bytes(content[at : at + draw.choice((1, 4, 30))]) * draw.choice((1, 2, 50))
        elif accident == 5 and draw.random() < 0.3:
            del content[at:]
        else:
            other = draw.choice(seeds)
            start = draw.randrange(len(other) + 1)
            content[at : at + 16] = other[start : start + draw.choice((4, 16, 200))]
    return bytes(content)


def fuzz(seeds: Sequence[bytes], read: Callable[[bytes], object], folder: Path, times: int) -> None:
    """Give `read` damaged files, `times` of them or for MINUTES. A sentence is an answer; anything else is not."""
    kept = folder / "fuzzed"

    def one(number: int) -> None:
        content = damaged(seeds, random.Random(number))
        if MINUTES:
            kept.write_bytes(content)
        start = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                read(content)
        except MembraError as error:
            said = str(error)
            if not said or "\n" in said or len(said) > 2000:
                raise AssertionError(f"file {number}: not one sentence: {said[:500]!r}") from error
        except Exception as error:
            kept.write_bytes(content)
            raise AssertionError(f"file {number} ({kept}): {type(error).__name__}: {error}") from error
        took = time.process_time() - start
        assert took < SLOW, f"file {number} took {took:.0f} s"

    if MINUTES:
        end, number = time.monotonic() + 60 * MINUTES, random.SystemRandom().randrange(2**40)
        first = number
        while time.monotonic() < end:
            one(number)
            number += 1
        print(f"\n{number - first} files, from number {first} on")
        return
    quick = settings(max_examples=times, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
    quick(given(number=st.integers(0, 2**40))(one))()


def pictures(kind: str) -> Iterator[bytes]:
    draw = np.random.default_rng(3)
    sheet = np.full((60, 90, 3), 220, np.uint8)
    sheet[10:50:8, 10:80] = draw.integers(0, 90, (5, 70, 3))
    picture = Image.fromarray(sheet)
    tags = Image.Exif()
    tags[0x0112] = 6
    ways: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "JPEG": [("RGB", {"exif": tags}), ("L", {"progressive": True}), ("CMYK", {})],
        "PNG": [("RGB", {"exif": tags}), ("P", {}), ("RGBA", {}), ("1", {}), ("I;16", {})],
        "TIFF": [
            ("RGB", {"exif": tags}), ("RGB", {"compression": "tiff_lzw"}), ("RGB", {"compression": "jpeg"}),
            ("L", {"compression": "tiff_adobe_deflate"}), ("1", {"compression": "group4"}), ("CMYK", {}),
            ("I;16", {}), ("RGB", {"save_all": True, "append_images": [Image.new("RGB", (9, 9))]}),
        ],
        "WEBP": [("RGB", {}), ("RGBA", {"lossless": True})],
        "BMP": [("RGB", {}), ("P", {}), ("1", {})],
        "PPM": [("RGB", {}), ("L", {}), ("1", {})],
        "JPEG2000": [("RGB", {}), ("L", {"irreversible": True}), ("RGBA", {"no_jp2": True})],
    }  # fmt: skip
    for mode, options in ways[kind]:
        content = BytesIO()
        made = Image.fromarray(sheet[..., 0].astype(np.uint16) * 257) if mode == "I;16" else picture.convert(mode)
        made.save(content, kind, **options)
        yield content.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP", "BMP", "PPM", "JPEG2000"])
def test_damaged_images(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "picture.jpg"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        try:
            seen = read_photograph(path)
        except Refused as error:
            assert str(error).startswith("picture.jpg")  # noqa: PT017
            raise
        assert seen.ndim == 3
        assert seen.dtype == np.uint8

    seeds = list(pictures(kind))
    for seed in seeds:
        read(seed)
    fuzz(seeds, read, tmp_path, 150)


def test_damaged_tables(tmp_path: Path) -> None:
    for name in ("a.jpg", "אב.jpg"):
        (tmp_path / name).touch()
    path = tmp_path / "table.csv"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        try:
            fragments(path)
        finally:
            read_joins(path, ["a.jpg", "אב.jpg"])

    text = StringIO(newline="")
    csv.writer(text).writerows([["image", "join", "leaf"], ["a.jpg", "1", 'a "quoted"\nline'], ["אב.jpg", "1", "=x"]])
    seeds = [
        text.getvalue().encode("utf-8-sig"),
        b"image,join\na.jpg,1\n",
        b"image;join\n",
        "image,join\n".encode("utf-16"),
    ]
    seeds += [b"image,join\n" + b"x" * 5000 + b",1\n", b'image,join\n"' + b"y" * 200_000, b"image,join\n\0,1\n"]
    fuzz(seeds, read, tmp_path, 400)


def test_damaged_manifests(tmp_path: Path) -> None:
    library = Library(url="https://x.example")
    for style in manifests.STYLES.values():
        for version in (2, 3):
            manifests.put(library, style, version)
    seeds = [json.dumps(document).encode() for document in library.documents.values()]

    def load(url: str) -> Any:
        return read_json(damaged(seeds, random.Random(zlib.crc32(url.encode("utf-8", "replace")))), url[:99], 64)

    def read(content: bytes) -> None:
        document = read_json(content, "m", 64)
        canvases, _ = read_canvases(document, "https://x.example/m", load, limits=Limits(500, 50, 6))
        for canvas in canvases:
            assert all(isinstance(value, str) for value in dataclasses.astuple(canvas))
            canvas.label.encode()  # no half characters: they would break every file and page

    fuzz(seeds, read, tmp_path, 200)


WORDS = st.sampled_from(
    [
        *("type", "@type", "id", "@id", "items", "label", "metadata", "value", "@value", "@language", "none", "en"),
        *("sequences", "canvases", "images", "resource", "body", "service", "profile", "motivation", "first", "next"),
        *("members", "manifests", "collections", "requiredStatement", "rights", "attribution", "source", "default"),
        *("width", "height", "sizes", "tiles", "maxWidth", "maxHeight", "maxArea", "supports", "extraFeatures"),
    ]
)
LEAVES = st.one_of(
    st.sampled_from(["Manifest", "Collection", "sc:Manifest", "sc:Collection", "Canvas", "Choice", "SpecificResource"]),
    st.sampled_from(["ImageService3", "level0", "painting", "https://x.example/a", "\ud800", "<b>", "<![", "1" * 400]),
    st.sampled_from([0, -1, 1e308, float("nan"), 10**40, True, None, ""]),
    st.text(max_size=8),
)
THINGS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=6)),
    max_leaves=40,
)


@settings(
    max_examples=int(200 + 5_000 * MINUTES), deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
@given(document=THINGS, other=THINGS)
def test_anything_of_a_manifests_words(document: Any, other: Any) -> None:
    """JSON of any shape in the words of manifests and of image services."""
    document, other = (read_json(json.dumps(each).encode(), "m", 64) for each in (document, other))
    try:
        canvases, lost = read_canvases(document, "https://x.example/m", lambda _: other, limits=Limits(500, 50, 6))
        for canvas in canvases:
            "\n".join(dataclasses.astuple(canvas)).encode()
        for url, why in lost:
            f"{url} {why}".encode()
    except Refused:
        pass
    try:
        for url in image_urls(read_service(document, "https://x.example/i"), 4000):
            assert url.startswith("https://x.example/i/full/")
    except Refused:
        pass


def test_damaged_encoders(tmp_path: Path) -> None:
    path, patch = tmp_path / "encoder.onnx", np.zeros((1, 64, 64), np.uint8)
    whole = random_encoder(4).onnx

    def read(content: bytes) -> None:
        path.write_bytes(content)
        encoder = Encoder.open(path, threads=1)
        assert encoder.encode(patch).shape == (1, encoder.dimension)

    fuzz([whole, save(weights_of(whole))], read, tmp_path, 100)


def resealed(folder: Path, name: str, written: FileRecord) -> FileRecord:
    """As if whoever wrote the file had meant it so: the checksums fit."""
    content = (folder / name).read_bytes()
    first = min(written.first_size, len(content))
    return FileRecord(name, len(content), zlib.crc32(content), first, zlib.crc32(content[:first]))


@pytest.mark.parametrize("notes", ['{"membra":[8,2]}', '["membra"]', '"membra"'])
def test_forged_notes_of_a_shard(tmp_path: Path, notes: str) -> None:
    """As fuzzing found them: a kind that is no text, notes that have no names."""
    collection = stored(tmp_path / "C", range(3))
    folder = tmp_path / "C" / "shards"
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length]) | {"__metadata__": json.loads(notes)}
    path.write_bytes(whole[:8] + json.dumps(header, separators=(",", ":")).encode().ljust(length) + whole[8 + length :])
    with pytest.raises(MembraError, match="no texts"):
        open_shard(folder, resealed(folder, path.name, next(iter(held_shards(collection)))))


@pytest.mark.parametrize("sealed", [False, True], ids=["damaged", "forged"])
def test_damaged_shards(tmp_path: Path, sealed: bool) -> None:
    """Damaged: the checksum tells, always. Forged, with a checksum that fits: its head is not believed either."""
    collection = stored(tmp_path / "C", range(6), size=6)
    folder = tmp_path / "C" / "shards"
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    written = next(iter(held_shards(collection)))
    head = 8 + int.from_bytes(whole[:8], "little")

    def read(content: bytes) -> None:
        if sealed:  # only the head is damaged: the data of a forger who knows the format are beyond telling
            content = content[:head] + whole[head:]
        path.write_bytes(content)
        shard = open_shard(folder, resealed(folder, path.name, written) if sealed else written, whole=True)
        assert sealed or content == whole
        for index in range(len(shard)):
            shard.stored(index)

    seeds = [whole[:head] if sealed else whole]
    fuzz(seeds, read, tmp_path, 300)


def held_shards(collection: Collection) -> list[FileRecord]:
    from membra.store import manifest

    with manifest.connect(collection.path) as database:
        return [written for written, _ in manifest.shards(database)]
