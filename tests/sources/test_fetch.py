"""Tests of fetching: rate limits, size limits, no requests to private networks; against a real local server."""

import asyncio
import gzip
import itertools
import json
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from library import Desk, Library, always, opened
from membra.errors import NotFetched
from membra.sources.fetch import AGENT, Manners, Web, anywhere, read_json

QUICK = Manners(pause=0.0, wait=0.02, silence=2.0, document_seconds=1.0, image_seconds=1.0)


@pytest.fixture
def library() -> Iterator[Library]:
    with opened() as library:
        library.documents["/m.json"] = {"label": "שלום"}
        yield library


def get(library: Library, path: str = "/m.json", manners: Manners = QUICK) -> bytes:
    with Web(manners=manners, may=anywhere) as web:
        return web.document(f"{library.url}{path}").body


def refusal(url: str, **how: object) -> str:
    with Web(manners=QUICK, **how) as web, pytest.raises(NotFetched) as error:  # type: ignore[arg-type]
        web.document(url)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_certificate_must_name_the_host_although_we_connect_by_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openssl = shutil.which("openssl")
    if not openssl:
        pytest.skip("no openssl to make a certificate with")
    files = ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "certificate"), "-days", "2", "-nodes"]
    named = ["-subj", "/CN=library.example", "-addext", "subjectAltName=DNS:library.example"]
    kind = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    subprocess.run([openssl, *kind, *files, *named], check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate"))
    with opened(certificate=tmp_path / "certificate", key=tmp_path / "key") as library:
        library.documents["/m.json"] = {"label": "safe"}
        port = library.url.rpartition(":")[2]
        once = Manners(pause=0, tries=1)
        with Web(manners=once, may=anywhere, resolve=lambda host: ["127.0.0.1"]) as web:
            assert b"safe" in web.document(f"https://library.example:{port}/m.json").body
            for other in ("other.example", "127.0.0.1"):
                with pytest.raises(NotFetched, match="certificate"):
                    web.document(f"https://{other}:{port}/m.json")
        assert len(library.diary) == 1


def test_we_say_who_we_are(library: Library) -> None:
    assert get(library) == json.dumps({"label": "שלום"}).encode()
    assert library.diary[0][2]["User-Agent"] == AGENT
    assert AGENT.startswith("membra/")


def test_it_works_in_a_notebook(library: Library) -> None:
    """Where an event loop already runs, as in Jupyter."""

    async def cell() -> bytes:
        return get(library)

    with ThreadPoolExecutor(1) as other:  # this thread may already have a loop, which drives a browser
        assert b"label" in other.submit(lambda: asyncio.run(cell())).result()


@pytest.mark.alone
def test_a_host_is_asked_once_a_pause(library: Library) -> None:
    with Web(manners=Manners(pause=0.25), may=anywhere) as web:
        for _ in range(4):
            web.document(f"{library.url}/m.json")
    times = [at for at, _, _ in library.diary]
    assert (
        min(late - early for early, late in itertools.pairwise(times)) > 0.2
    )  # measured at the server, where the first arrives later
    assert Manners().pause == 1.0


def test_what_is_not_there_is_asked_for_once(library: Library) -> None:
    assert "404" in refusal(f"{library.url}/gone", may=anywhere)
    assert len(library.diary) == 1


def test_a_server_that_hangs_up_is_asked_again(library: Library) -> None:
    def hang_up(desk: Desk, path: str) -> bool:
        if len(library.diary) > 2:
            return False
        desk.send_response(200)
        desk.send_header("Content-Length", "500")
        desk.end_headers()
        desk.close_connection = True
        return True

    library.mood = hang_up
    assert get(library).startswith(b"{")
    assert len(library.diary) == 3


def test_packed_answers_are_unpacked_and_damaged_ones_refused(library: Library) -> None:
    whole = json.dumps({"label": "x" * 1000}).encode()
    for packed in (gzip.compress(whole), zlib.compress(whole)):
        library.mood = always(200, packed, **{"Content-Encoding": "gzip"})
        assert get(library) == whole
    for broken, said in ((b"no gzip", "damaged"), (gzip.compress(whole)[:40], "cut short")):
        library.mood = always(200, broken, **{"Content-Encoding": "gzip"})
        assert said in refusal(f"{library.url}/m.json", may=anywhere)
    library.mood = always(200, b"?", **{"Content-Encoding": "br"})
    assert "was not requested" in refusal(f"{library.url}/m.json", may=anywhere)


def test_json_is_read_within_its_depth() -> None:
    assert read_json("\ufeff[1]".encode(), "m", 3) == [1]
    assert read_json(b"[[[]]]", "m", 3) == [[[]]]
    assert read_json(rb'{"\ud800": "\udfff\ud83d\ude00"}', "m", 3) == {"?": "?😀"}
    with pytest.raises(NotFetched, match="a web page instead of a manifest"):
        read_json(b"<!doctype html><title>Are you human?</title>", "m", 64)
    with pytest.raises(NotFetched, match="text that is not JSON instead"):
        read_json(b"\xff\xfe", "m", 64)
