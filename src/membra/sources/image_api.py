"""The IIIF Image API, versions 1 to 3: from a service's info.json to the URLs of a whole image."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from membra.errors import Refused


@dataclass(frozen=True)
class Service:
    """The capabilities of an image service: the image's size, the service's limits, and whether it scales."""

    base: str
    version: int
    width: int
    height: int
    scales: bool  # level 1 or more: any width can be requested; level 0 has only the listed sizes
    sizes: tuple[tuple[int, int], ...]
    max_width: float
    max_height: float
    max_area: float
    tiles: tuple[tuple[int, int, tuple[int, ...]], ...] = ()  # width, height and scale factors


def read_service(info: Any, base: str) -> Service:
    """Parse the info.json of the service at the URL `base`. Raises `Refused` where it gives no size."""
    info = info if isinstance(info, dict) else {}
    width, height = _number(info.get("width")), _number(info.get("height"))
    if not (width and height):
        raise Refused("{address} is not an image service: its info.json has no width and height", address=base)
    # Version 2 keeps its limits in the second part of `profile`, version 3 at the top.
    profile = info.get("profile") if isinstance(info.get("profile"), list) else [info.get("profile")]
    limits: dict[str, Any] = {}
    for part in (*(part for part in profile or [] if isinstance(part, dict)), info):
        limits |= {
            key: part[key] for key in ("maxWidth", "maxHeight", "maxArea", "supports", "extraFeatures") if key in part
        }
    names = " ".join(part for part in profile or [] if isinstance(part, str))
    level = re.search(r"level(\d)", names)
    features = {str(name) for key in ("supports", "extraFeatures") for name in _list(limits.get(key))}
    max_width = _number(limits.get("maxWidth")) or math.inf
    sizes = [
        (_number(size.get("width")), _number(size.get("height")))
        for size in _list(info.get("sizes"))
        if isinstance(size, dict)
    ]
    return Service(
        base=base,
        version=_version(info, names),
        width=width,
        height=height,
        scales=(int(level[1]) if level else 1) > 0 or bool(features & {"sizeByW", "sizeByWh"}),
        sizes=tuple(sorted({size for size in sizes if all(size)}, reverse=True)),
        max_width=max_width,
        max_height=_number(limits.get("maxHeight")) or max_width,  # as in the specification
        max_area=_number(limits.get("maxArea")) or math.inf,
        tiles=tuple(_tiles(info)),
    )


def image_urls(service: Service, max_side: int) -> list[str]:
    """Return URLs of the whole image, the best first, none beyond the service's limits.

    The longer side is at most `max_side` px, unless the smallest listed size is larger. There are several, since
    services do not always support what they declare: where the server refuses one, the next is requested. Empty where
    there are only tiles, or every size is beyond a limit.
    """
    scale = _scale(service, service.width, service.height)
    wanted = min(scale, max_side / max(service.width, service.height))
    width, height = max(1, int(service.width * wanted)), max(1, int(service.height * wanted))
    listed = [size for size in service.sizes if _scale(service, *size) >= 1]
    fitting = [size for size in listed if max(size) <= max_side] or listed[-1:]  # or the smallest listed
    found = []
    if wanted >= 1:
        found.append(_url(service, "max" if service.version >= 3 else "full"))
    elif service.scales:
        found.append(_url(service, _size(service, width, height)))
    found += [_url(service, _size(service, *size)) for size in fitting[:2]]
    if not found and scale >= 1 and not service.tiles:
        found.append(_url(service, "max" if service.version >= 3 else "full"))
    return list(dict.fromkeys(found))


def allowed(service: Service, width: int, height: int) -> bool:
    """Return whether a size is within the service's limits."""
    return _scale(service, width, height) >= 1


def quality(service: Service) -> str:
    """Return the name of the default quality in the service's version."""
    return "native" if service.version == 1 else "default"


def _tiles(info: dict[str, Any]) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Parse `tiles` of version 2 and 3, or `tile_width` of version 1."""
    old = {
        "width": info.get("tile_width"),
        "height": info.get("tile_height"),
        "scaleFactors": info.get("scale_factors"),
    }
    for part in [*_list(info.get("tiles")), old][:20]:
        size = part if isinstance(part, dict) else {}
        width = _number(size.get("width"))
        factors = {_number(factor) for factor in _list(size.get("scaleFactors"))[:40]} - {0}
        if width:
            yield width, _number(size.get("height")) or width, tuple(sorted(factors or {1}))


def _scale(service: Service, width: int, height: int) -> float:
    """Return the factor by which an image of this size must shrink to be within the service's limits; at most 1."""
    by_area = math.sqrt(service.max_area / (width * height))
    return min(1.0, service.max_width / width, service.max_height / height, by_area)


def _size(service: Service, width: int, height: int) -> str:
    return f"{width},{height}" if service.version >= 3 else f"{width},"  # each version's canonical form


def _url(service: Service, size: str) -> str:
    return f"{service.base}/full/{size}/0/{quality(service)}.jpg"


def _version(info: dict[str, Any], profile: str) -> int:
    words = f"{info.get('@context', '')} {info.get('type', '')} {info.get('@type', '')} {profile}"
    if re.search(r"image/3|ImageService3", words):
        return 3
    return 1 if re.search(r"image/1|image-api/1|image-api/(?:compliance|conformance)|ImageService1", words) else 2


def _number(value: Any) -> int:
    """Parse a size as a whole number; 0 for anything else, including negative and excessive ones."""
    if isinstance(value, str) and value.isdigit() and len(value) < 10:
        value = int(value)
    return int(value) if isinstance(value, int | float) and 0 < value < 1e9 else 0


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
