"""Tests of IIIF sources from the command line: fetched completely and once, despite server errors and kills."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import manifests
from library import Library, opened, sometimes
from membra.describe.encoder import Encoder
from membra.errors import MembraError
from membra.sources.download import TABLE, Download, fragment_id
from membra.sources.fetch import Manners
from membra.sources.fragment import Fragment, fragments, fragments_of
from membra.sources.iiif import Canvas
from membra.store.collection import Collection

QUICK = Manners(pause=0.0, wait=0.02, document_seconds=10.0, image_seconds=10.0)


@pytest.fixture
def library(drawn: Path) -> Iterator[Library]:
    """Serve ten manifests (five libraries, two versions), two photographs each, in one collection of collections."""
    with opened() as library:
        inner = []
        for index, urls in enumerate(manifests.fill(library, sorted((drawn.parent / "images").glob("*.jpg")))):
            path = f"/collection/{index}"
            library.documents[path] = {
                "@type": "sc:Collection",
                "members": [{"@id": url, "@type": "sc:Manifest"} for url in urls],
            }
            inner.append({"id": f"{library.url}{path}", "type": "Collection"})
        library.documents["/all"] = {"type": "Collection", "items": inner}
        yield library


def download(folder: Path, **changed: Any) -> Download:
    return replace(Download(folder, allow_private=True, manners=QUICK), **changed)


def gather(library: Library, folder: Path, path: str = "/all", **changed: Any) -> list[Fragment]:
    return fragments(f"{library.url}{path}", download(folder, **changed))


def test_everything_is_indexed_with_rights_though_the_server_limits_and_says_429(
    library: Library, tmp_path: Path, encoder: Encoder
) -> None:
    library.mood = sometimes(429, 7, **{"Retry-After": "0"})
    how = download(tmp_path / "C.images")
    found = fragments(f"{library.url}/all", how)
    assert (len(found), how.lost, [f.refused for f in found if f.refused]) == (20, [], [])
    for fragment in found:
        with Image.open(fragment.path) as image:
            # Version 1 of the Image API cannot declare limits: Gallica's images come at full size.
            limited = "Hébreu" not in fragment.columns["shelfmark"]
            assert 300 <= max(image.size) <= (library.limit if limited else 5000)

    collection = Collection.create(tmp_path / "C", encoder=encoder)
    added = collection.add(found)
    assert (added.described, added.refused) == (20, [])
    kept = {entry.fragment.id: entry.fragment.columns for entry in collection.entries()}
    for style in manifests.STYLES.values():
        rows = [row for row in kept.values() if row["shelfmark"] == style.expected[0]]
        assert len(rows) == 4
        assert {row["attribution"] for row in rows} == {style.expected[1]}
        assert {row["rights"] for row in rows} == {style.rights}
        assert all(row["canvas"].startswith(row["manifest"]) for row in rows)
        assert all(row["manifest"].startswith(library.url) for row in rows)


def test_a_second_run_asks_for_nothing(library: Library, tmp_path: Path) -> None:
    first = gather(library, tmp_path / "images")
    library.diary.clear()
    assert gather(library, tmp_path / "images") == first
    assert library.diary == []


def test_an_old_manifest_is_asked_for_again_and_its_images_are_not(library: Library, tmp_path: Path) -> None:
    first = gather(library, tmp_path / "images")
    for kept in (tmp_path / "images" / ".documents").iterdir():
        os.utime(kept, (0, 0))
    library.diary.clear()
    assert gather(library, tmp_path / "images") == first
    assert len(library.asked()) == 16  # a collection of five with ten manifests; no info.json, no image


def test_the_folder_of_images_is_a_source_itself(library: Library, tmp_path: Path) -> None:
    first = gather(library, tmp_path / "images")
    again = fragments(tmp_path / "images" / TABLE)
    assert {f.id: (f.path, f.columns) for f in again} == {f.id: (f.path, f.columns) for f in first}
    assert {f.id for f in fragments(tmp_path / "images")} == {f.id for f in first}


def test_columns_that_a_person_added_to_the_table_of_images_stay(library: Library, tmp_path: Path) -> None:
    first = gather(library, tmp_path / "images")
    table = tmp_path / "images" / TABLE
    lines = table.read_text(encoding="utf-8-sig").splitlines()
    table.write_text("\n".join([lines[0] + ",join", *(f"{line},J{i}" for i, line in enumerate(lines[1:]))]) + "\n")
    gather(library, tmp_path / "images")
    again = fragments(table)
    joins = {f.id: {"join": f"J{i}"} for i, f in enumerate(first)}
    assert {f.id: f.columns for f in again} == {f.id: {**f.columns, **joins[f.id]} for f in first}


RUN = """
import sys
from pathlib import Path
from membra.describe.encoder import Encoder
from membra.describe.recipe import MEMBRA
from membra.store.index import index
from membra.sources.download import Download
from membra.sources.fetch import Manners
from membra.sources.fragment import fragments
url, folder = sys.argv[1], Path(sys.argv[2])
manners = Manners(pause=0.03, wait=0.02)
found = fragments(url, Download(folder / "images", allow_private=True, manners=manners))
collection, added = index(found, folder / "C", recipe=MEMBRA, encoder=Encoder.open(folder / "e.onnx"))
print(len(found), len([entry for entry in collection.entries() if not entry.refused]), len(added.refused))
"""


@pytest.mark.slow
def test_killed_and_run_again_it_fetches_the_rest_and_nothing_twice(
    library: Library, tmp_path: Path, encoder: Encoder
) -> None:
    """SIGKILL at three moments of fetching and once while fragments are described; then one run to the end."""
    (tmp_path / "e.onnx").write_bytes(encoder.onnx)
    command = [sys.executable, "-c", RUN, f"{library.url}/all", str(tmp_path)]
    library.mood = sometimes(429, 11, **{"Retry-After": "0"})
    moments: list[Callable[[], bool]] = [partial(_asked, library, enough) for enough in (3, 20, 40)]
    for reached in (*moments, (tmp_path / "C" / "manifest.sqlite").exists):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while not reached() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        _, said = process.communicate()
        assert process.returncode == -signal.SIGKILL, said
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.stdout, done.stderr) == ("20 20 0\n", "")
    # 16 documents, 10 times info.json, 20 images (each in two manifests).
    # Only requests that a kill or a 429 interrupted were repeated.
    times = Counter(library.asked())
    assert len(times) == 36
    assert 46 <= sum(times.values()) - sum(times.values()) // 11 <= 46 + 4
    assert not list((tmp_path / "images").rglob("*.part"))
    for fragment in fragments(tmp_path / "images"):
        with Image.open(fragment.path) as image:
            image.load()


def test_a_service_that_breaks_its_word_is_asked_for_less(library: Library, tmp_path: Path) -> None:
    """One declares scaling but serves only the listed sizes; another has no info.json at all."""
    picture = next(iter(library.images.values()))
    library.images["odd"] = picture
    base = f"{library.url}/odd"
    library.documents["/odd/info.json"] = {
        "width": 9000, "height": 9000, "profile": ["http://iiif.io/api/image/2/level1.json"],
        "sizes": [{"width": 300, "height": 300}],
    }  # fmt: skip
    library.documents["/odd/full/300,/0/default.jpg"] = picture.read_bytes()
    library.documents["/plain.jpg"] = picture.read_bytes()
    service = {"profile": "http://iiif.io/api/image/2/level1.json"}
    images = [
        {"resource": {"@id": f"{base}/full/full/0/default.jpg", "service": {"@id": base, **service}}},
        {"resource": {"@id": f"{library.url}/plain.jpg", "service": {"@id": f"{library.url}/no", **service}}},
    ]
    library.documents["/m"] = {"@type": "sc:Manifest", "sequences": [{"canvases": [{"@id": "c", "images": images}]}]}
    found = gather(library, tmp_path / "images", "/m")
    assert [f.refused for f in found] == ["", ""]
    assert library.asked("/odd/full") == ["/odd/full/4000,/0/default.jpg", "/odd/full/300,/0/default.jpg"]


def test_sources_that_show_nothing_are_one_line(library: Library, tmp_path: Path) -> None:
    library.documents |= {"/page": b"<!doctype html>", "/deep": b"[" * 1000 + b"]" * 1000, "/other": {"a": 1}}
    library.documents["/circle"] = {"type": "Collection", "items": [{"id": f"{library.url}/circle"}]}
    for path, said in (
        ("/nowhere", "status 404"),
        ("/page", "a web page instead of a manifest"),
        ("/deep", "nested"),
        ("/other", "neither a IIIF manifest"),
        ("/circle", "no images were found in"),
    ):
        with pytest.raises(MembraError, match=said) as error:
            gather(library, tmp_path / "images", path)
        assert "\n" not in str(error.value)
    with pytest.raises(MembraError, match="--allow-private"):
        gather(library, tmp_path / "images", allow_private=False)
    with pytest.raises(MembraError, match="only http and https"):
        fragments("file:///etc/passwd", download(tmp_path / "images"))
    with pytest.raises(MembraError, match="its images need a folder"):
        fragments(f"{library.url}/all")


def test_a_manifest_in_a_file_may_be_given_with_folders(library: Library, tmp_path: Path, drawn: Path) -> None:
    style = manifests.STYLES["princeton"]
    (tmp_path / "m.json").write_text(json.dumps(library.documents[style.path.format(version=3)]), encoding="utf-8")
    found = fragments_of([tmp_path / "m.json", drawn.parent / "images"], download(tmp_path / "images"))
    assert len(found) == 14
    (tmp_path / "n.json").write_text("{")
    with pytest.raises(MembraError, match="text that is not JSON"):
        fragments(tmp_path / "n.json", download(tmp_path / "images"))


@pytest.mark.parametrize(
    ("shelfmark", "label"),
    [
        ("T-S 8C1.3", "1r"),
        ("אוסף גניזה ח׳", "דף א\nב"),
        ("../../etc", ".."),
        ("/absolute\x00", "CON?<script>"),
        ("", ""),
        ("ש" * 400, "x" * 400),
        ("e\u0301", "=cmd"),
    ],
)
def test_an_id_is_safe_as_a_path_whatever_the_manifest_says(shelfmark: str, label: str, tmp_path: Path) -> None:
    canvas = Canvas("c", label, "m", shelfmark, "", "", "https://x.example/a.PNG?b=c/../..", "", "")
    id = fragment_id(canvas)
    folder, name = id.split("/")
    assert len(folder.encode()) <= 80
    assert len(name.encode()) <= 100
    assert not {folder[0], name[0]} & set(".-_/=")
    assert name.endswith(".png")
    assert (tmp_path / id).resolve().is_relative_to(tmp_path)
    assert id.isprintable()
    assert fragment_id(replace(canvas, id="d")) != id


@pytest.mark.slow
def test_the_command_fetches_at_one_request_a_second_and_says_what_it_did(library: Library, tmp_path: Path) -> None:
    style = manifests.STYLES["cambridge"]
    parts = [f"{library.url}{path}" for path in (style.path.format(version=2), "/gone")]
    library.documents["/some"] = {"type": "Collection", "items": [{"id": part, "type": "Manifest"} for part in parts]}
    url = f"{library.url}/some"
    main = "from membra.cli import main; main()"
    command = [sys.executable, "-c", main, "index", url, "--into", str(tmp_path / "C"), "--workers", "1"]
    barred = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (barred.returncode, barred.stdout) == (1, "")
    assert "--allow-private" in barred.stderr.splitlines()[-1]
    assert library.diary == []
    command += ["--allow-private", "--max-side", "600"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "2 described, 0 known already, 1 refused" in done.stdout
    assert f"refused: {library.url}/gone: the server returned status 404" in done.stderr
    times = [at for at, _, _ in library.diary]
    assert len(times) == 7
    assert times[-1] - times[0] > 4  # six seconds apart when sent; on a busy machine the first arrives late
    assert len(fragments(tmp_path / "C.images")) == 2


def _asked(library: Library, enough: int) -> bool:
    return len(library.diary) >= enough
