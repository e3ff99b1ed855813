"""Tests of services that offer an image only in tiles: assembled completely, within limits and without change."""

import json
from io import BytesIO
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from library import Desk, opened
from membra.sources.download import Download
from membra.sources.fetch import Manners
from membra.sources.fragment import fragments
from membra.sources.image_api import read_service
from membra.sources.tiles import MAX_TILES, plan_tiles

QUICK = Manners(pause=0.0, wait=0.02, document_seconds=10.0, image_seconds=10.0)
V2 = {"@context": "http://iiif.io/api/image/2/context.json", "profile": ["http://iiif.io/api/image/2/level0.json"]}
V3 = {"@context": "http://iiif.io/api/image/3/context.json", "type": "ImageService3", "profile": "level0"}


def planned(max_side: int = 4000, **info: Any) -> Any:
    return plan_tiles(read_service({"width": 3000, "height": 2000, **V2, **info}, "https://i.example/1"), max_side)


def test_tiles_cover_the_image_once_at_the_finest_allowed_scale() -> None:
    tiles = [{"width": 512, "height": 400, "scaleFactors": [8, 4, 2, 1]}]
    for max_side, factor in ((4000, 1), (2999, 2), (1500, 2), (700, 8)):
        grid = planned(max_side, tiles=tiles)
        assert (grid.width, grid.height) == (ceil(3000 / factor), ceil(2000 / factor))
        seen = np.zeros((grid.height, grid.width), dtype=int)
        for tile in grid.tiles:
            seen[tile.top : tile.top + tile.height, tile.left : tile.left + tile.width] += 1
        assert (seen == 1).all()
    last = planned(1500, tiles=tiles).tiles[-1]
    assert last.urls == (
        "https://i.example/1/2048,1600,952,400/476,/0/default.jpg",
        "https://i.example/1/2048,1600,952,400/476,200/0/default.jpg",
    )
    assert planned(1500, tiles=tiles, **V3).tiles[-1].urls[0].endswith("/476,200/0/default.jpg")
    whole = planned(700, tiles=tiles).tiles[0].urls
    assert [url.split("/")[4] for url in whole] == ["full", "full", "0,0,3000,2000", "0,0,3000,2000"]


def test_a_grid_keeps_every_limit() -> None:
    fine = [{"width": 100, "scaleFactors": [1, 2]}]
    assert len(planned(tiles=fine).tiles) == 150 <= MAX_TILES  # 600 at full size
    assert planned(tiles=[{"width": 100, "scaleFactors": [1]}]) is None
    assert planned(500, tiles=[{"width": 512, "scaleFactors": [1, 2]}]) is None
    limited: dict[str, Any] = {"profile": [*V2["profile"], {"maxWidth": 1500}]}
    assert planned(tiles=[{"width": 512, "scaleFactors": [1, 2]}], **limited).width == 1500
    assert planned(tiles=[]) is None
    # a service that scales gives the whole image; its tiles are for viewers
    assert planned(tiles=fine, profile=["http://iiif.io/api/image/2/level1.json"]) is None


@pytest.mark.parametrize("odd", [7, ["x"], [{"width": -1}], [{"width": 512, "scaleFactors": "x"}], [{"width": 1e300}]])
def test_odd_tiles_do_no_harm(odd: Any) -> None:
    grid = planned(tiles=odd)
    assert grid is None or len(grid.tiles) <= MAX_TILES


class Folder:
    """A static folder of tiles as a IIIF service, as written by some tool: it has these files only."""

    def __init__(self, picture: Image.Image, info: dict[str, Any], size: str) -> None:
        self.picture, self.info, self.size = picture, info, size

    def __call__(self, desk: Desk, path: str) -> bool:
        if not path.startswith("/tiled/"):
            return False
        *_, region, size, _, name = path.split("/") if "info.json" not in path else ["", "", "", "info.json"]
        if name == "info.json":
            desk.answer(200, json.dumps(self.info).encode(), **{"Content-Type": "application/json"})
            return True
        try:
            left, top, wide, high = map(int, region.split(","))
            width = int(size.partition(",")[0])
        except ValueError:
            desk.answer(404)
            return True
        height = ceil(high * width / wide)
        if size != self.size.format(width=width, height=height):
            desk.answer(404)
            return True
        part = self.picture.crop((left, top, left + wide, top + high)).resize((width, height))
        body = BytesIO()
        part.save(body, "JPEG", quality=95)
        desk.answer(200, body.getvalue(), **{"Content-Type": "image/jpeg"})
        return True


@pytest.mark.parametrize(("version", "size"), [(V2, "{width},"), (V2, "{width},{height}"), (V3, "{width},{height}")])
def test_a_folder_of_tiles_is_read_whole_and_goes_on_after_a_break(
    tmp_path: Path, drawn: Path, version: dict[str, Any], size: str
) -> None:
    with Image.open(sorted((drawn.parent / "images").glob("*.jpg"))[0]) as image:
        picture = image.convert("RGB")
    tiles = [{"width": 128, "scaleFactors": [1, 2, 4]}]
    info = {**version, "width": picture.width, "height": picture.height, "tiles": tiles}
    info["sizes"] = [{"width": ceil(picture.width / 8), "height": ceil(picture.height / 8)}]  # a thumbnail
    with opened() as library:
        folder = Folder(picture, info, size)
        count = 0

        def falls_silent(desk: Desk, path: str) -> bool:
            nonlocal count
            count += ".jpg" in path
            if count > 9:  # fails from the second row of tiles on
                desk.answer(403)
                return True
            return folder(desk, path)

        service = f"{library.url}/tiled/a"
        resource = {"@id": f"{service}/full/full/0/default.jpg", "service": {**version, "@id": service}}
        library.documents["/m"] = {
            "@type": "sc:Manifest", "@id": f"{library.url}/m", "label": "T-S 1",
            "sequences": [{"canvases": [{"@id": "c", "label": "1r", "images": [{"resource": resource}]}]}],
        }  # fmt: skip
        how = Download(tmp_path / "images", allow_private=True, manners=QUICK)
        library.mood = falls_silent
        [broken] = fragments(f"{library.url}/m", how)
        assert "403" in broken.refused
        asked = library.asked("/tiled/a/")
        came = {path for path in asked if "/128," in path} - {asked[-1]}
        library.mood = folder
        library.diary.clear()
        [found] = fragments(f"{library.url}/m", how)
        assert found.refused == ""
        wanted = {path for path in came if path.split("/")[4] == size.format(width=128, height=128)}
        assert len(wanted) >= 5
        again = library.asked("/tiled/a/")
        assert not wanted & set(again), "what came is not asked for again"
        tiles_left = ceil(picture.width / 128) * ceil(picture.height / 128) - len(wanted)
        assert len(again) <= tiles_left + 3, "nor is every tile asked for in two forms"
    with Image.open(found.path) as image:
        assert image.size == picture.size
        apart = np.abs(np.asarray(image, float) - np.asarray(picture, float))
    assert apart.mean() < 3
    assert np.percentile(apart, 99.9) < 40  # no seam, no misplaced tile
    assert list((tmp_path / "images" / ".tiles").iterdir()) == []
