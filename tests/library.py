"""A library for the tests: a real local HTTP server with a IIIF image server that has limits and can misbehave.

It serves images under /image/VERSION/NAME and documents under the paths they are put at, records the requests, and can
be configured to answer some of them differently.
"""

import json
import math
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from PIL import Image

Mood = Callable[["Desk", str], bool]  # may answer the request itself; returns whether it did


@dataclass
class Library:
    """One server. `limit` is the longest side that it delivers, as in its info.json."""

    url: str = ""
    images: dict[str, Path] = field(default_factory=dict)
    documents: dict[str, Any] = field(default_factory=dict)
    limit: int = 700
    mood: Mood = lambda desk, path: False
    diary: list[tuple[float, str, dict[str, str]]] = field(default_factory=list)

    def asked(self, part: str = "") -> list[str]:
        return [path for _, path, _ in list(self.diary) if part in path]

    def service(self, version: int, name: str) -> str:
        return f"{self.url}/image/{version}/{name}"

    def info(self, version: int, name: str) -> dict[str, Any]:
        with Image.open(self.images[unquote(name)]) as image:
            width, height = image.size
        size, base = {"width": width, "height": height}, self.service(version, name)
        limits = {"maxWidth": self.limit, "maxHeight": self.limit}
        if version == 3:
            return {
                "@context": "http://iiif.io/api/image/3/context.json", "id": base, "type": "ImageService3",
                "protocol": "http://iiif.io/api/image", "profile": "level2", **size, **limits,
            }  # fmt: skip
        if version == 2:
            return {
                "@context": "http://iiif.io/api/image/2/context.json", "@id": base, **size,
                "profile": ["http://iiif.io/api/image/2/level2.json", limits],
            }  # fmt: skip
        if version == 1:  # version 1 has no fields for limits
            profile = "http://library.stanford.edu/iiif/image-api/1.1/compliance.html#level2"
            return {"@context": "http://library.stanford.edu/iiif/image-api/1.1/context.json", "@id": base,
                    "profile": profile, **size}  # fmt: skip
        half = {"width": math.ceil(width / 2), "height": math.ceil(height / 2)}
        return {  # 0: level 0, static files in two sizes
            "@context": "http://iiif.io/api/image/2/context.json", "@id": base, **size, "sizes": [half],
            "profile": ["http://iiif.io/api/image/2/level0.json", limits],
        }  # fmt: skip


class Desk(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, library: Library, *rest: Any) -> None:
        self.library = library
        super().__init__(*rest)

    def do_GET(self) -> None:
        library = self.library
        library.diary.append((time.monotonic(), self.path, dict(self.headers)))
        if library.mood(self, self.path):
            return
        if self.path in library.documents:
            document = library.documents[self.path]
            body = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.answer(200, body, **{"Content-Type": "application/ld+json"})
        elif self.path.startswith("/image/"):
            self.image(self.path.removeprefix("/image/"))
        else:
            self.answer(404)

    def image(self, path: str) -> None:
        version, name, *rest = path.split("/")
        if unquote(name) not in self.library.images:
            return self.answer(404)
        info = self.library.info(int(version), name)
        if rest == ["info.json"]:
            return self.answer(200, json.dumps(info).encode(), **{"Content-Type": "application/json"})
        region, size, _, quality = rest
        if quality != ("native.jpg" if version == "1" else "default.jpg") or region != "full":
            return self.answer(400)
        with Image.open(self.library.images[unquote(name)]) as image:
            whole = image.convert("RGB")
        picture = self.sized(whole, int(version), size, info)
        if picture is None:
            return self.answer(400, b"that size is not given")
        body = BytesIO()
        picture.save(body, "JPEG", quality=90)
        return self.answer(200, body.getvalue(), **{"Content-Type": "image/jpeg"})

    def sized(self, image: Image.Image, version: int, size: str, info: dict[str, Any]) -> Image.Image | None:
        """Return the image at the requested size; None if it is beyond the limits, like real servers."""
        whole = image.size
        width = whole[0] if size in ("full", "max") else int(size.partition(",")[0])
        if (size == "max" and version < 3) or (size == "full" and version == 3):
            return None
        height = round(whole[1] * width / whole[0])
        if version == 0 and width not in (whole[0], info["sizes"][0]["width"]):
            return None
        limited = version != 1 and max(width, height) > self.library.limit
        return None if limited or width > whole[0] else image.resize((width, height))

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # the client closed the connection


@contextmanager
def opened(host: str = "127.0.0.1", certificate: Path | None = None, key: Path | None = None) -> Iterator[Library]:
    """Run a library during the block, by https if it has a certificate."""
    library = Library()
    server = _Server((host, 0), partial(Desk, library))
    if certificate:
        secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        secure.load_cert_chain(certificate, key)
        server.socket = secure.wrap_socket(server.socket, server_side=True)
    library.url = f"http{'s' if certificate else ''}://{host}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield library
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def always(status: int, body: bytes = b"", **headers: str) -> Mood:
    """Give every request the same answer."""

    def mood(desk: Desk, path: str) -> bool:
        desk.answer(status, body, **headers)
        return True

    return mood


def sometimes(status: int, every: int, **headers: str) -> Mood:
    """Answer every `every`-th request with `status` alone."""
    count = 0

    def mood(desk: Desk, path: str) -> bool:
        nonlocal count
        count += 1
        if count % every:
            return False
        desk.answer(status, b"too many requests", **headers)
        return True

    return mood
