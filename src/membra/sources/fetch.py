"""Fetch from other people's servers: politely, within limits, and never from inside our own network."""

import asyncio
import json
import re
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from types import TracebackType
from typing import Any, TypeVar

import httpx

from membra import __version__
from membra.errors import NotFetched
from membra.messages import Message

T = TypeVar("T")
Address = IPv4Address | IPv6Address
Resolve = Callable[[str], list[str]]  # a host's name to its addresses

AGENT = f"membra/{__version__} (finds the scattered fragments of one manuscript; one request a second)"
_JSON = "application/ld+json, application/json;q=0.9, */*;q=0.1"
_BUSY = frozenset({403, 408, 425, 429, 500, 502, 503, 504})  # perhaps later; many servers say 403 to the hasty
_MOVED = frozenset({301, 302, 303, 307, 308})
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_NAT64 = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True)
class Manners:
    """How often, how much and how long. Seconds and bytes."""

    pause: float = 1.0  # between two requests to one host: what libraries ask of programs
    silence: float = 30.0  # the longest between two bytes
    document_seconds: float = 120.0  # for one manifest, from the request to its last byte
    image_seconds: float = 300.0
    document_bytes: int = 50_000_000  # unpacked; the largest real manifests have about 20 MB
    image_bytes: int = 150_000_000  # the largest photograph that is read, as an uncompressed TIFF of 50 megapixels
    tries: int = 4
    wait: float = 2.0  # before the second try, doubled before each further one, if the server names no time
    longest_wait: float = 120.0  # a server that asks for more is left alone until the next run
    hops: int = 5  # redirects
    depth: int = 64  # of brackets in JSON; manifests have about 15


@dataclass(frozen=True)
class Fetched:
    """What came: the bytes unpacked, and the server's marks by which one can ask whether it has changed."""

    body: bytes
    kind: str  # what the server calls it
    marks: dict[str, str] = field(default_factory=dict)  # headers for asking again: If-None-Match, If-Modified-Since
    unchanged: bool = False  # the server says: still as it was; the body is empty then


def is_public(address: Address) -> bool:
    """Whether an address belongs to the world: not to this machine, its network, or a use of its own.

    >>> [is_public(ip_address(a)) for a in ("8.8.8.8", "127.0.0.1", "10.1.1.1", "169.254.169.254", "::ffff:10.0.0.1")]
    [True, False, False, False, False]
    """
    inner = _within(address)
    if inner is not None and not is_public(inner):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def anywhere(address: Address) -> bool:
    """Every address, for those who fetch from their own machine or network."""
    return True


class Web:
    """A polite visitor. Use it in a `with`; each fetch waits for its turn at that host.

    `may` decides which addresses are connected to. A host's name is resolved once for each request, every address it
    has must be allowed, and the connection goes to the very address that was looked at: a name that points elsewhere
    a moment later changes nothing. Redirects are followed by hand, each through the same gate.
    """

    def __init__(
        self,
        *,
        manners: Manners | None = None,
        may: Callable[[Address], bool] = is_public,
        resolve: Resolve | None = None,
    ) -> None:
        self.manners = manners or Manners()
        self._may = may
        self._resolve = resolve
        # A loop in a thread of its own: a notebook has one running in ours already.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        # One for each host: two hosts at one address must not share a connection whose certificate names only one.
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._turn: dict[str, float] = {}  # host: when it may be asked again

    def __enter__(self) -> "Web":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def document(self, url: str, marks: dict[str, str] | None = None) -> Fetched:
        """A manifest or another text. With `marks` of an earlier fetch it may come back `unchanged`."""
        manners = self.manners
        headers = {"Accept": _JSON, **(marks or {})}
        return self._run(self._get(url, manners.document_bytes, manners.document_seconds, headers))

    def image(self, url: str) -> Fetched:
        """The bytes of an image. Whether they are one, the reader finds out."""
        manners = self.manners
        return self._run(self._get(url, manners.image_bytes, manners.image_seconds, {"Accept": "image/*, */*;q=0.1"}))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C while it waits
            raise

    async def _close(self) -> None:
        for client in self._clients.values():
            await client.aclose()
        await self._loop.shutdown_default_executor()

    async def _get(self, url: str, most: int, seconds: float, headers: dict[str, str]) -> Fetched:
        manners = self.manners
        for attempt in range(1, manners.tries + 1):
            wait = manners.wait * 2 ** (attempt - 1)
            try:
                response, body = await self._follow(url, most, seconds, headers)
            except TimeoutError:
                raise NotFetched(
                    "not finished after {seconds} s; try again later", url=url, seconds=f"{seconds:g}", later=True
                ) from None
            except httpx.TransportError as error:
                failed = NotFetched("no answer ({why})", url=url, why=str(error) or type(error).__name__)
            except (httpx.InvalidURL, UnicodeError, ValueError) as error:
                raise NotFetched("not an address ({why})", url=url, why=error) from None
            else:
                if response.status_code == 304:
                    return Fetched(b"", "", unchanged=True)
                if response.is_success:
                    return Fetched(body, response.headers.get("content-type", ""), _marks(response))
                failed = NotFetched(
                    "the server answers {status}",
                    url=url,
                    status=f"{response.status_code} {response.reason_phrase}".rstrip(),
                    answered=response.status_code,
                )
                if response.status_code not in _BUSY:
                    raise failed
                wait = _asked_to_wait(response) or wait
            if attempt == manners.tries:
                raise NotFetched(
                    "{said}, {count} times; run the command again later",
                    url=url,
                    said=failed.reason,
                    count=attempt,
                    answered=failed.answered,
                    later=True,
                )
            if wait > manners.longest_wait:
                raise NotFetched(
                    "{said} and asks to wait {seconds} s; run the command again then",
                    url=url,
                    said=failed.reason,
                    seconds=f"{wait:.0f}",
                    answered=failed.answered,
                    later=True,
                )
            await asyncio.sleep(wait)
        raise AssertionError("unreachable")

    async def _follow(
        self, url: str, most: int, seconds: float, headers: dict[str, str]
    ) -> tuple[httpx.Response, bytes]:
        target = httpx.URL(url)
        for _ in range(self.manners.hops + 1):
            response, body = await self._ask(target, most, seconds, headers)
            if response.status_code not in _MOVED or "location" not in response.headers:
                return response, body
            target = target.join(response.headers["location"])
        raise NotFetched("sent on more than {count} times; is the address right?", url=url, count=self.manners.hops)

    async def _ask(
        self, url: httpx.URL, most: int, seconds: float, headers: dict[str, str]
    ) -> tuple[httpx.Response, bytes]:
        """One request to one address, in this host's turn. The time counts from when it is sent."""
        addresses = await self._addresses(url)
        host = _name(url)
        if host not in self._clients:
            self._clients[host] = self._client()
        client = self._clients[host]
        await asyncio.sleep(self._turn.get(host, 0.0) - time.monotonic())
        self._turn[host] = time.monotonic() + self.manners.pause
        unreached: httpx.TransportError | None = None
        async with asyncio.timeout(seconds):
            for address in addresses:
                request = client.build_request(
                    "GET",
                    url.copy_with(host=str(address)),
                    headers={**headers, "Host": url.netloc.decode("ascii")},
                    # The certificate must name the host, although we connect by address.
                    extensions={**self._timeouts(), **({} if str(address) == host else {"sni_hostname": host})},
                )
                try:
                    response = await client.send(request, stream=True)
                except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                    unreached = error  # the host's next address may do
                    continue
                try:
                    return response, await _body(response, url, most)
                finally:
                    await response.aclose()
        raise unreached or httpx.ConnectError("no address")

    async def _addresses(self, url: httpx.URL) -> list[Address]:
        """The addresses of the host, all of them allowed."""
        if url.scheme not in ("http", "https") or not url.host:
            raise NotFetched("only http and https addresses are fetched", url=str(url))
        if url.userinfo:
            raise NotFetched("an address with a password in it is not fetched", url=str(url.copy_with(userinfo=b"")))
        try:
            found = [ip_address(_name(url))]
        except ValueError:
            found = [ip_address(address) for address in await self._look_up(_name(url))]
        if not found:
            raise NotFetched("there is no host {host}; check the address", url=str(url), host=url.host)
        for address in found:
            if not self._may(address):
                raise NotFetched(
                    "{host} is {ip}, an address inside this machine or network; give --allow-private if you "
                    "trust the manifest",
                    url=str(url),
                    host=url.host,
                    ip=address,
                )
        return found

    async def _look_up(self, host: str) -> list[str]:
        if self._resolve:
            return self._resolve(host)
        try:
            async with asyncio.timeout(self.manners.silence):
                found = await asyncio.get_running_loop().getaddrinfo(host, None)
        except OSError:
            return []
        return list(dict.fromkeys(str(one[4][0]).partition("%")[0] for one in found))

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            headers={"User-Agent": AGENT, "Accept-Encoding": "gzip"},
            verify=self._trusted,
            trust_env=False,  # a proxy would resolve names behind our back
            follow_redirects=False,
        )

    @cached_property
    def _trusted(self) -> ssl.SSLContext:
        return httpx.create_ssl_context()

    def _timeouts(self) -> dict[str, Any]:
        return {"timeout": httpx.Timeout(self.manners.silence).as_dict()}


def read_json(fetched: bytes, name: str, depth: int) -> Any:
    """The JSON value of some bytes; `NotFetched` where they are none or too deep to be meant well."""
    try:
        value = json.loads(fetched.decode("utf-8-sig"))
    except RecursionError:
        raise NotFetched("nested too deeply; this is no manifest", url=name) from None
    except ValueError:
        start = " ".join(fetched[:60].decode("utf-8", "replace").split())
        what = Message("a web page") if start[:1] == "<" else Message("no JSON")
        raise NotFetched(
            "{what} instead of a manifest (it begins {start}); check the address",
            url=name,
            what=what,
            start=repr(start),
        ) from None
    level, here = 0, [value]
    while here:  # level by level, not by recursion
        level += 1
        if level > depth:
            raise NotFetched("nested more than {depth} levels deep; this is no manifest", url=name, depth=depth)
        inner = [item.values() if isinstance(item, dict) else item for item in here if isinstance(item, dict | list)]
        here = [child for items in inner for child in items if isinstance(child, dict | list)]
    if _HALF.search(fetched):  # half characters, which JSON can spell and no file, page or address can hold
        whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
        value = json.loads(whole)
    return value


async def _body(response: httpx.Response, url: httpx.URL, most: int) -> bytes:
    """The body unpacked, never more than `most` bytes: neither as they come nor as they unfold."""
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "", "gzip", "x-gzip", "deflate"):
        raise NotFetched("packed as {coding}, which was not asked for", url=str(url), coding=repr(coding))
    too_much = NotFetched(
        "more than {megabytes} MB; it is not fetched", url=str(url), megabytes=f"{most / 1_000_000:g}"
    )
    if response.headers.get("content-length", "").isdigit() and int(response.headers["content-length"]) > most:
        raise too_much
    unpacking = zlib.decompressobj(wbits=47) if coding not in ("identity", "") else None  # 47: gzip or zlib
    body, came = bytearray(), 0
    async for chunk in response.aiter_raw():
        came += len(chunk)
        while chunk:
            try:
                body += unpacking.decompress(chunk, most + 1 - len(body)) if unpacking else chunk
            except zlib.error:
                raise NotFetched("damaged on its way (not {coding})", url=str(url), coding=coding) from None
            if came > most or len(body) > most:
                raise too_much
            chunk = unpacking.unconsumed_tail if unpacking else b""
    if unpacking and body and not unpacking.eof:
        raise NotFetched("cut short on its way", url=str(url))
    return bytes(body)


def _name(url: httpx.URL) -> str:
    """The host as it goes over the wire: ASCII, other scripts in their Punycode."""
    return url.raw_host.decode("ascii")


def _marks(response: httpx.Response) -> dict[str, str]:
    pairs = (("If-None-Match", "etag"), ("If-Modified-Since", "last-modified"))
    return {ask: response.headers[given] for ask, given in pairs if given in response.headers}


def _asked_to_wait(response: httpx.Response) -> float:
    """Seconds that Retry-After asks for, given as seconds or as a date; 0 where it asks for nothing."""
    said = response.headers.get("retry-after", "").strip()
    try:
        return float(said) if said.isdigit() else max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _within(address: Address) -> IPv4Address | None:
    """The address of the old kind that one of the new kind stands for (mapped, 6to4, NAT64)."""
    if isinstance(address, IPv4Address):
        return None
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour
