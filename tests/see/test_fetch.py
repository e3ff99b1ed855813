"""Fetching: polite, within limits, never into our own network; against a real server on this machine."""

import asyncio
import gzip
import itertools
import json
import shutil
import subprocess
import time
import zlib
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest

from library import Desk, Library, opened, sometimes
from membra.see.fetch import AGENT, Manners, NotFetched, Web, anywhere, is_public, read_json

QUICK = Manners(pause=0.0, wait=0.02, silence=2.0, document_seconds=1.0, image_seconds=1.0)


@pytest.fixture
def library() -> Iterator[Library]:
    with opened() as library:
        library.documents["/m.json"] = {"label": "שלום"}
        yield library


def get(library: Library, path: str = "/m.json", manners: Manners = QUICK) -> bytes:
    with Web(manners=manners, may=anywhere) as web:
        return web.document(f"{library.address}{path}").body


def refusal(address: str, **how: object) -> str:
    with Web(manners=QUICK, **how) as web, pytest.raises(NotFetched) as error:  # type: ignore[arg-type]
        web.document(address)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.215.14", True),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True),
        *((address, False) for address in ("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1")),
        *((address, False) for address in ("192.168.1.1", "169.254.169.254", "100.64.0.1", "224.0.0.1", "240.0.0.1")),
        *((address, False) for address in ("255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1")),
        *((address, False) for address in ("::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::", "2002:a00:1::")),
        *((address, False) for address in ("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2001:db8::1")),
    ],
)
def test_only_addresses_of_the_world_are_public(address: str, public: bool) -> None:
    assert is_public(ip_address(address)) == public


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "127.1"]
)
def test_loopback_is_refused_however_it_is_written(library: Library, host: str) -> None:
    port = library.address.rpartition(":")[2]
    said = refusal(f"http://{host}:{port}/m.json")
    assert "--allow-private" in said
    assert library.diary == []


def test_only_the_web_is_fetched() -> None:
    for address in ("file:///etc/passwd", "ftp://example.org/m", "gopher://example.org/", "http:///m", "data:,x"):
        assert "only http and https" in refusal(address, may=anywhere)
    assert "password" in refusal("http://me:secret@127.0.0.1/m.json", may=anywhere)
    assert "secret" not in refusal("http://me:secret@127.0.0.1/m.json", may=anywhere)
    assert "no host" in refusal("http://nowhere.invalid/m.json", resolve=lambda host: [])


def test_every_hop_of_a_redirect_passes_the_same_gate(library: Library) -> None:
    """A server that may be asked sends us on to one that may not, and to a file."""
    with opened("127.0.0.2") as outside:
        for target in (f"{library.address}/m.json", "file:///etc/passwd", "http://169.254.169.254/latest/meta-data"):
            outside.mood = lambda desk, path, target=target: bool(desk.answer(302, Location=target)) or True
            said = refusal(f"{outside.address}/m.json", may=lambda address: str(address) == "127.0.0.2")
            assert "--allow-private" in said or "only http and https" in said
    assert library.diary == []


def test_a_name_that_changes_its_address_changes_nothing(library: Library) -> None:
    """DNS rebinding: looked up once a request, and connected to the address that was looked at."""
    with opened("127.0.0.2") as outside:
        port = outside.address.rpartition(":")[2]
        answers = iter([["127.0.0.2"], ["127.0.0.1"]])
        outside.documents["/m.json"] = {"who": "outside"}
        with Web(
            manners=QUICK, may=lambda address: str(address) == "127.0.0.2", resolve=lambda host: next(answers)
        ) as web:
            assert b"outside" in web.document(f"http://library.example:{port}/m.json").body
            with pytest.raises(NotFetched, match=r"127\.0\.0\.1, an address inside"):
                web.document(f"http://library.example:{port}/m.json")
        assert outside.diary[0][2]["Host"] == f"library.example:{port}"
    with pytest.raises(StopIteration):
        next(answers)
    assert library.diary == []


def test_a_certificate_must_name_the_host_although_we_connect_by_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openssl = shutil.which("openssl")
    if not openssl:
        pytest.skip("no openssl to make a certificate with")
    made = ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "certificate"), "-days", "2", "-nodes"]
    named = ["-subj", "/CN=library.example", "-addext", "subjectAltName=DNS:library.example"]
    kind = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    subprocess.run([openssl, *kind, *made, *named], check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate"))
    with opened(certificate=tmp_path / "certificate", key=tmp_path / "key") as library:
        library.documents["/m.json"] = {"label": "safe"}
        port = library.address.rpartition(":")[2]
        once = Manners(pause=0, tries=1)
        with Web(manners=once, may=anywhere, resolve=lambda host: ["127.0.0.1"]) as web:
            assert b"safe" in web.document(f"https://library.example:{port}/m.json").body
            for other in ("other.example", "127.0.0.1"):
                with pytest.raises(NotFetched, match="certificate"):
                    web.document(f"https://{other}:{port}/m.json")
        assert len(library.diary) == 1


def test_one_inner_address_among_several_is_enough_to_refuse(library: Library) -> None:
    said = refusal("http://library.example/m.json", resolve=lambda host: ["93.184.215.14", "127.0.0.1"])
    assert "127.0.0.1" in said


def test_we_say_who_we_are(library: Library) -> None:
    assert get(library) == json.dumps({"label": "שלום"}).encode()
    assert library.diary[0][2]["User-Agent"] == AGENT
    assert AGENT.startswith("membra/")


def test_it_works_in_a_notebook(library: Library) -> None:
    """Where an event loop runs already, as in Jupyter."""

    async def cell() -> bytes:
        return get(library)

    assert b"label" in asyncio.run(cell())


def test_a_host_is_asked_once_a_pause(library: Library) -> None:
    with Web(manners=Manners(pause=0.25), may=anywhere) as web:
        for _ in range(4):
            web.document(f"{library.address}/m.json")
    times = [at for at, _, _ in library.diary]
    assert (
        min(late - early for early, late in itertools.pairwise(times)) > 0.2
    )  # measured at the server, where the first arrives later
    assert Manners().pause == 1.0


@pytest.mark.parametrize("status", [429, 403, 500, 503])
def test_a_busy_server_is_asked_again_and_then_left_alone(library: Library, status: int) -> None:
    library.mood = sometimes(status, 2)
    assert get(library)  # the first request
    assert get(library)  # the second is refused, the third answered
    library.mood = sometimes(status, 1)
    before = len(library.diary)
    assert f"answers {status}" in refusal(f"{library.address}/m.json", may=anywhere)
    assert len(library.diary) - before == QUICK.tries


def test_retry_after_is_kept(library: Library) -> None:
    library.mood = sometimes(429, 2, **{"Retry-After": "1"})
    get(library)
    start = time.monotonic()
    get(library)
    assert time.monotonic() - start >= 1.0
    library.mood = sometimes(503, 1, **{"Retry-After": "86400"})
    before = len(library.diary)
    assert "asks to wait 86400 s" in refusal(f"{library.address}/m.json", may=anywhere)
    assert len(library.diary) == before + 1


def test_what_is_not_there_is_asked_for_once(library: Library) -> None:
    assert "404" in refusal(f"{library.address}/gone", may=anywhere)
    assert len(library.diary) == 1


def test_a_circle_of_redirects_ends(library: Library) -> None:
    library.mood = lambda desk, path: bool(desk.answer(301, Location=path)) or True
    assert "sent on more than 5 times" in refusal(f"{library.address}/m.json", may=anywhere)


def _endless(desk: Desk, path: str) -> bool:
    """A manifest without end."""
    desk.send_response(200)
    desk.end_headers()
    for _ in range(20_000):
        desk.wfile.write(b" " * 65_536)
    return True


def _bomb(desk: Desk, path: str) -> bool:
    desk.answer(200, gzip.compress(bytes(200_000_000), 9), **{"Content-Encoding": "gzip"})
    return True


def _claims(desk: Desk, path: str) -> bool:
    desk.send_response(200)
    desk.send_header("Content-Length", "1000000000")
    desk.end_headers()
    return True


@pytest.mark.parametrize("mood", [_endless, _bomb, _claims])
def test_too_much_is_not_fetched(library: Library, mood: object) -> None:
    library.mood = mood  # type: ignore[assignment]
    small = Manners(pause=0, document_bytes=5_000_000, document_seconds=20)
    with Web(manners=small, may=anywhere) as web, pytest.raises(NotFetched, match="more than 5 MB"):
        web.document(f"{library.address}/m.json")


def _drop_by_drop(desk: Desk, path: str) -> bool:
    desk.send_response(200)
    if "body" in path:
        desk.end_headers()
    else:
        desk.flush_headers()
    for _ in range(100):
        desk.wfile.write(b"X")
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("path", ["/body", "/headers"])
def test_a_server_that_sends_byte_by_byte_is_left(library: Library, path: str) -> None:
    library.mood = _drop_by_drop
    start = time.monotonic()
    assert "not finished after 1 s" in refusal(f"{library.address}{path}", may=anywhere)
    assert time.monotonic() - start < 3


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
        library.mood = lambda desk, path, packed=packed: (
            bool(desk.answer(200, packed, **{"Content-Encoding": "gzip"})) or True
        )
        assert get(library) == whole
    for broken, said in ((b"no gzip", "damaged"), (gzip.compress(whole)[:40], "cut short")):
        library.mood = lambda desk, path, broken=broken: (
            bool(desk.answer(200, broken, **{"Content-Encoding": "gzip"})) or True
        )
        assert said in refusal(f"{library.address}/m.json", may=anywhere)
    library.mood = lambda desk, path: bool(desk.answer(200, b"?", **{"Content-Encoding": "br"})) or True
    assert "was not asked for" in refusal(f"{library.address}/m.json", may=anywhere)


def test_json_is_read_within_its_depth() -> None:
    assert read_json("\ufeff[1]".encode(), "m", 3) == [1]
    for depth in (65, 1000, 200_000):
        with pytest.raises(NotFetched, match=r"nested (too|more)"):
            read_json(b"[" * depth + b"]" * depth, "m", 64)
    with pytest.raises(NotFetched, match="a web page instead of a manifest"):
        read_json(b"<!doctype html><title>Are you human?</title>", "m", 64)
    with pytest.raises(NotFetched, match="no JSON instead"):
        read_json(b"\xff\xfe", "m", 64)
