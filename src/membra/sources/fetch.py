"""HTTP client with rate limits, size and time limits, and protection against requests to private networks."""

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
Resolve = Callable[[str], list[str]]  # a host name to its IP addresses

AGENT = f"membra/{__version__} (finds the scattered fragments of one manuscript; one request a second)"
_JSON = "application/ld+json, application/json;q=0.9, */*;q=0.1"
_BUSY = frozenset({403, 408, 425, 429, 500, 502, 503, 504})  # retried; many servers answer 403 to frequent requests
_MOVED = frozenset({301, 302, 303, 307, 308})
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_NAT64 = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True)
class Manners:
    """Limits on rate, size and time, in seconds and bytes."""

    pause: float = 1.0  # between two requests to one host: what libraries ask of programs
    silence: float = 30.0  # timeout between two bytes
    document_seconds: float = 120.0  # for one manifest, from the request to its last byte
    image_seconds: float = 300.0  # for one image, likewise
    document_bytes: int = 50_000_000  # decompressed; the largest real manifests have about 20 MB
    image_bytes: int = 150_000_000  # the largest photograph that is read, as an uncompressed TIFF of 50 megapixels
    tries: int = 4  # attempts per request
    wait: float = 2.0  # before the second attempt, doubled before each further one, without a Retry-After
    longest_wait: float = 120.0  # a longer Retry-After ends the attempts of this run
    hops: int = 5  # redirects
    depth: int = 64  # maximum nesting of JSON; manifests have about 15


@dataclass(frozen=True)
class Fetched:
    """A response: the decompressed bytes, and the headers for a conditional request."""

    body: bytes
    kind: str  # Content-Type
    marks: dict[str, str] = field(default_factory=dict)  # headers for revalidation: If-None-Match, If-Modified-Since
    unchanged: bool = False  # status 304, not modified; the body is empty then


def is_public(address: Address) -> bool:
    """Return whether an IP address is publicly routable: not loopback, private, multicast or reserved.

    >>> [is_public(ip_address(a)) for a in ("8.8.8.8", "127.0.0.1", "10.1.1.1", "169.254.169.254", "::ffff:10.0.0.1")]
    [True, False, False, False, False]
    """
    inner = _embedded_ipv4(address)
    if inner is not None and not is_public(inner):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def anywhere(address: Address) -> bool:
    """Allow every IP address, for fetching from one's own machine or network."""
    return True


class Web:
    """A rate-limited HTTP client, to be used as a context manager. Each request waits for the host's `pause`.

    `may` decides which IP addresses are allowed. A host name is resolved once per request, all of its addresses must be
    allowed, and the connection goes to an address that was checked, so that a later change of the DNS record has no
    effect. Redirects are followed here, each with the same checks.
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
        # An event loop in its own thread: in a notebook, the calling thread already runs one.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        # One per host: two hosts at one IP address must not share a connection whose certificate names only one.
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._next_request: dict[str, float] = {}  # by host, the monotonic time from which a request may be sent

    def __enter__(self) -> "Web":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def document(self, url: str, marks: dict[str, str] | None = None) -> Fetched:
        """Fetch a manifest or another document. With `marks` of an earlier fetch the result may be `unchanged`."""
        manners = self.manners
        headers = {"Accept": _JSON, **(marks or {})}
        return self._run(self._get(url, manners.document_bytes, manners.document_seconds, headers))

    def image(self, url: str) -> Fetched:
        """Fetch the bytes of an image. They are not decoded here."""
        manners = self.manners
        return self._run(self._get(url, manners.image_bytes, manners.image_seconds, {"Accept": "image/*, */*;q=0.1"}))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # on Ctrl-C while waiting
            raise

    async def _close(self) -> None:
        for client in self._clients.values():
            await client.aclose()
        await self._loop.shutdown_default_executor()

    async def _get(self, url: str, max_bytes: int, seconds: float, headers: dict[str, str]) -> Fetched:
        manners = self.manners
        for attempt in range(1, manners.tries + 1):
            wait = manners.wait * 2 ** (attempt - 1)
            try:
                response, body = await self._follow(url, max_bytes, seconds, headers)
            except TimeoutError:
                raise NotFetched(
                    "not finished after {seconds} s; try again later", url=url, seconds=f"{seconds:g}", later=True
                ) from None
            except httpx.TransportError as error:
                failed = NotFetched("no answer ({why})", url=url, why=str(error) or type(error).__name__)
            except (httpx.InvalidURL, UnicodeError, ValueError) as error:
                raise NotFetched("not a valid URL ({why})", url=url, why=error) from None
            else:
                if response.status_code == 304:
                    return Fetched(b"", "", unchanged=True)
                if response.is_success:
                    return Fetched(body, response.headers.get("content-type", ""), _marks(response))
                failed = NotFetched(
                    "the server returned status {status}",
                    url=url,
                    status=f"{response.status_code} {response.reason_phrase}".rstrip(),
                    answered=response.status_code,
                )
                if response.status_code not in _BUSY:
                    raise failed
                wait = _retry_after(response) or wait
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
                    "{said} and asked to wait {seconds} s; run the command again after that time",
                    url=url,
                    said=failed.reason,
                    seconds=f"{wait:.0f}",
                    answered=failed.answered,
                    later=True,
                )
            await asyncio.sleep(wait)
        raise AssertionError("unreachable")

    async def _follow(
        self, url: str, max_bytes: int, seconds: float, headers: dict[str, str]
    ) -> tuple[httpx.Response, bytes]:
        target = httpx.URL(url)
        for _ in range(self.manners.hops + 1):
            response, body = await self._request(target, max_bytes, seconds, headers)
            if response.status_code not in _MOVED or "location" not in response.headers:
                return response, body
            target = target.join(response.headers["location"])
        raise NotFetched("redirected more than {count} times; check the URL", url=url, count=self.manners.hops)

    async def _request(
        self, url: httpx.URL, max_bytes: int, seconds: float, headers: dict[str, str]
    ) -> tuple[httpx.Response, bytes]:
        """Send one request, after the host's pause. The time limit counts from when it is sent."""
        addresses = await self._addresses(url)
        host = _name(url)
        if host not in self._clients:
            self._clients[host] = self._client()
        client = self._clients[host]
        await asyncio.sleep(self._next_request.get(host, 0.0) - time.monotonic())
        self._next_request[host] = time.monotonic() + self.manners.pause
        failed: httpx.TransportError | None = None
        async with asyncio.timeout(seconds):
            for address in addresses:
                request = client.build_request(
                    "GET",
                    url.copy_with(host=str(address)),
                    headers={**headers, "Host": url.netloc.decode("ascii")},
                    # The certificate must name the host, although the connection is by IP address.
                    extensions={**self._timeouts(), **({} if str(address) == host else {"sni_hostname": host})},
                )
                try:
                    response = await client.send(request, stream=True)
                except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                    failed = error  # the host's next IP address may work
                    continue
                try:
                    return response, await _body(response, url, max_bytes)
                finally:
                    await response.aclose()
        raise failed or httpx.ConnectError("no address")

    async def _addresses(self, url: httpx.URL) -> list[Address]:
        """Resolve the host to its IP addresses; raises `NotFetched` unless all of them are allowed."""
        if url.scheme not in ("http", "https") or not url.host:
            raise NotFetched("only http and https URLs are fetched", url=str(url))
        if url.userinfo:
            raise NotFetched("URLs that contain a password are not fetched", url=str(url.copy_with(userinfo=b"")))
        try:
            found = [ip_address(_name(url))]
        except ValueError:
            found = [ip_address(address) for address in await self._look_up(_name(url))]
        if not found:
            raise NotFetched("the host {host} was not found; check the URL", url=str(url), host=url.host)
        for address in found:
            if not self._may(address):
                raise NotFetched(
                    "{host} is {ip}, an address of this machine or its local network; give --allow-private if you "
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
            trust_env=False,  # a proxy would resolve names itself, without the check
            follow_redirects=False,
        )

    @cached_property
    def _trusted(self) -> ssl.SSLContext:
        return httpx.create_ssl_context()

    def _timeouts(self) -> dict[str, Any]:
        return {"timeout": httpx.Timeout(self.manners.silence).as_dict()}


def read_json(fetched: bytes, name: str, depth: int) -> Any:
    """Parse JSON; raises `NotFetched` where it is invalid or nested more than `depth` levels."""
    try:
        value = json.loads(fetched.decode("utf-8-sig"))
    except RecursionError:
        raise NotFetched("not a manifest, because it is nested too deeply", url=name) from None
    except ValueError:
        start = " ".join(fetched[:60].decode("utf-8", "replace").split())
        what = Message("a web page") if start[:1] == "<" else Message("text that is not JSON")
        raise NotFetched(
            "found {what} instead of a manifest (it begins {start}); check the URL",
            url=name,
            what=what,
            start=repr(start),
        ) from None
    level, here = 0, [value]
    while here:  # level by level, without recursion
        level += 1
        if level > depth:
            raise NotFetched(
                "not a manifest, because it is nested more than {depth} levels deep", url=name, depth=depth
            )
        inner = [item.values() if isinstance(item, dict) else item for item in here if isinstance(item, dict | list)]
        here = [child for items in inner for child in items if isinstance(child, dict | list)]
    if _SURROGATE.search(fetched):  # replace lone surrogates, which JSON can escape and UTF-8 cannot encode
        whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
        value = json.loads(whole)
    return value


async def _body(response: httpx.Response, url: httpx.URL, max_bytes: int) -> bytes:
    """Read and decompress the body; raises `NotFetched` above `max_bytes`, compressed or decompressed."""
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "", "gzip", "x-gzip", "deflate"):
        raise NotFetched("compressed as {coding}, which was not requested", url=str(url), coding=repr(coding))
    too_much = NotFetched(
        "not fetched, because it is larger than {megabytes} MB", url=str(url), megabytes=f"{max_bytes / 1_000_000:g}"
    )
    if response.headers.get("content-length", "").isdigit() and int(response.headers["content-length"]) > max_bytes:
        raise too_much
    unpacking = zlib.decompressobj(wbits=47) if coding not in ("identity", "") else None  # 47: gzip or zlib
    body, received = bytearray(), 0
    async for chunk in response.aiter_raw():
        received += len(chunk)
        while chunk:
            try:
                body += unpacking.decompress(chunk, max_bytes + 1 - len(body)) if unpacking else chunk
            except zlib.error:
                raise NotFetched("damaged in transit (not valid {coding})", url=str(url), coding=coding) from None
            if received > max_bytes or len(body) > max_bytes:
                raise too_much
            chunk = unpacking.unconsumed_tail if unpacking else b""
    if unpacking and body and not unpacking.eof:
        raise NotFetched("cut short in transit", url=str(url))
    return bytes(body)


def _name(url: httpx.URL) -> str:
    """Return the host as sent over the wire: ASCII, other scripts in Punycode."""
    return url.raw_host.decode("ascii")


def _marks(response: httpx.Response) -> dict[str, str]:
    pairs = (("If-None-Match", "etag"), ("If-Modified-Since", "last-modified"))
    return {ask: response.headers[given] for ask, given in pairs if given in response.headers}


def _retry_after(response: httpx.Response) -> float:
    """Return the seconds of the header Retry-After, which is a number or a date; 0 without a valid one."""
    value = response.headers.get("retry-after", "").strip()
    try:
        return float(value) if value.isdigit() else max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _embedded_ipv4(address: Address) -> IPv4Address | None:
    """Return the IPv4 address that is embedded in an IPv6 address (mapped, 6to4, NAT64), if any."""
    if isinstance(address, IPv4Address):
        return None
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour
