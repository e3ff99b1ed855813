"""Plans and assembles the tiles of an image that a IIIF service offers only in tiles."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO

from PIL import Image

from membra.errors import Refused
from membra.sources.image_api import Service, allowed, quality
from membra.sources.photograph import MAX_PIXELS

MAX_TILES = 400  # of one image: seven minutes at one request per second
_QUALITY = 92  # of the assembled JPEG; tiles are JPEGs already


@dataclass(frozen=True)
class Tile:
    """One tile's position and size in the assembled image, in px, and its URLs: the canonical one first.

    There are several, since the file names of static services differ in the form of the size.
    """

    left: int
    top: int
    width: int
    height: int
    urls: tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """Tiles that make up an image of this size, row by row."""

    width: int
    height: int
    tiles: tuple[Tile, ...]


def plan_tiles(service: Service, max_side: int) -> Grid | None:
    """Return the finest grid within `max_side` px, the service's limits and `MAX_TILES`; None where there is none.

    Only for a service that cannot scale: any other returns the whole image at a size within its limits.
    """
    if service.scales:
        return None
    grids = [
        (factor, wide, high)
        for wide, high, factors in service.tiles
        for factor in factors
        if _fits(service, wide, high, factor, max_side)
    ]
    return _grid(service, *min(grids)) if grids else None


def assemble(grid: Grid, fetch: Callable[[tuple[str, ...]], bytes]) -> bytes:
    """Assemble the whole image as JPEG. `fetch` returns the image file of one tile, given its URLs."""
    whole = Image.new("RGB", (grid.width, grid.height))
    for tile in grid.tiles:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(BytesIO(fetch(tile.urls))) as image:
                if abs(image.width - tile.width) > 1 or abs(image.height - tile.height) > 1:  # some round down
                    raise Refused(
                        "{address}: the server sent a tile of {width} x {height} pixels instead of {wanted_width} x "
                        "{wanted_height}; ask the library for the image",
                        address=tile.urls[0],
                        width=image.width,
                        height=image.height,
                        wanted_width=tile.width,
                        wanted_height=tile.height,
                    )
                part = image.convert("RGB").resize((tile.width, tile.height))
        whole.paste(part, (tile.left, tile.top))
    content = BytesIO()
    whole.save(content, "JPEG", quality=_QUALITY)
    return content.getvalue()


def _fits(service: Service, wide: int, high: int, factor: int, max_side: int) -> bool:
    width, height = math.ceil(service.width / factor), math.ceil(service.height / factor)
    return (
        max(width, height) <= max_side
        and width * height <= MAX_PIXELS
        and allowed(service, width, height)
        and math.ceil(width / wide) * math.ceil(height / high) <= MAX_TILES
    )


def _grid(service: Service, factor: int, wide: int, high: int) -> Grid:
    """Lay out the tiles as in the specification: regions of the full image; the last ones cover the remainder."""
    tiles = []
    for top in range(0, service.height, high * factor):
        for left in range(0, service.width, wide * factor):
            across, down = min(wide * factor, service.width - left), min(high * factor, service.height - top)
            width, height = math.ceil(across / factor), math.ceil(down / factor)
            region = f"{left},{top},{across},{down}"
            regions = ["full", region] if (across, down) == (service.width, service.height) else [region]
            sizes = [f"{width},{height}", f"{width},"]
            sizes = sizes if service.version >= 3 else sizes[::-1]
            urls = [f"{service.base}/{r}/{s}/0/{quality(service)}.jpg" for r in regions for s in sizes]
            tiles.append(Tile(left // factor, top // factor, width, height, tuple(urls)))
    return Grid(math.ceil(service.width / factor), math.ceil(service.height / factor), tuple(tiles))
