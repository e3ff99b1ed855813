"""Access control and content security: hosts, keys, tokens, and headers that make untrusted text harmless."""

import hmac
import ipaddress
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.requests import cookie_parser

from membra.errors import Forbidden
from membra.store.people import People
from membra.store.verdicts import same_person

Scope = MutableMapping[str, Any]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Any, Send], Awaitable[None]]

COOKIE = "membra-key"
ENTER = "/enter"  # target of a personal link
PERSON = "membra.person"  # in the scope of a request: the signed-in person
ENTERING = "membra.entering"  # likewise: the person of an opened link, if it needs confirmation
_YEAR = 365 * 24 * 3600
MAX_BYTES = 300_000_000  # maximum size of a request: an uncompressed scan of 100 megapixels

# No inline script or style: a name with <script> in it stays text even if a template fails to escape it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]


@dataclass(frozen=True)
class Guard:
    """The access rules of one start of the server.

    host : the host that the server is bound to; `token` is in every form, `key` is required beyond this machine
    people : who may sign in, each by a personal key, on any host; `key` is then not accepted
    public : the URL by which browsers reach it through a proxy, or ""; by https, the cookie is only sent by https
    """

    host: str = "127.0.0.1"
    people: People | None = None
    public: str = ""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    key: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def local(self) -> bool:
        """Return whether only this machine can reach the server."""
        return is_loopback(self.host)

    @property
    def public_host(self) -> str:
        """Return host and port of the public URL, where people sign in; without them a proxy would admit everybody."""
        return urlsplit(self.public).netloc.lower() if self.people else ""

    def knows_host(self, header: str) -> bool:
        """Return whether a Host header names this server. A foreign one indicates DNS rebinding."""
        if not self.local:
            return True  # any name may be valid; the key decides
        if header and header.lower() == self.public_host:
            return True  # a proxy that passes on the browser's Host header
        try:
            name = urlsplit(f"//{header}").hostname or ""
        except ValueError:
            return False
        return name == "localhost" or is_loopback(name) or name == self.host.lower()

    def check(self, token: str) -> None:
        """Raise `Forbidden` unless a form or request has the token of this start."""
        if not token:
            raise Forbidden("the token is missing; send the token from /api/token in the header X-Membra-Token")
        if not self.accepts(token):
            raise Forbidden(
                "The server was restarted after this page was loaded; reload the page and repeat your action"
            )

    def accepts(self, token: str) -> bool:
        """Return whether this is the server's token."""
        return hmac.compare_digest(token.encode(errors="replace"), self.token.encode())

    def lets_in(self, key: str) -> bool:
        return self.local or self.is_key(key)

    def cookie(self, key: str) -> str:
        """Return the Set-Cookie header that signs a browser in as the person with this key."""
        secure = "; Secure" if self.public.startswith("https://") else ""
        return f"{COOKIE}={key}; Max-Age={_YEAR}; HttpOnly; SameSite=Strict; Path=/{secure}"

    def is_key(self, key: str) -> bool:
        """Return whether this is the printed key."""
        return hmac.compare_digest(key.encode(errors="replace"), self.key.encode())


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Gate:
    """Middleware before every route: answers unauthorised requests with 403, and adds the headers to every answer."""

    def __init__(self, app: App, guard: Guard) -> None:
        self.app = app
        self.guard = guard

    async def __call__(self, scope: Scope, receive: Any, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        reason = self._refusal(scope, headers)
        if reason:
            await _answer(send, 403, reason)
            return
        if scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            length = headers.get("content-length", "")
            if not length.isdecimal():
                await _answer(send, 411, "A request that sends something must say how long it is.")
                return
            if int(length[:18]) > MAX_BYTES:
                await _answer(send, 413, f"More than {MAX_BYTES // 1_000_000} MB cannot be sent here.")
                return

        kept = self._kept(scope)

        async def with_headers(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS]
                if scope["path"] == ENTER:  # its URL has a key, which other sites must not receive
                    message["headers"] = [one for one in message["headers"] if one[0] != b"referrer-policy"]
                    # `no-referrer` would also remove the origin of its own forms.
                    message["headers"].append((b"referrer-policy", b"strict-origin"))
                if kept:
                    message["headers"].append((b"set-cookie", kept.encode("latin-1", "replace")))
            await send(message)

        await self.app(scope, receive, with_headers)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> str:
        """Return why this request is rejected, or ""."""
        if not self.guard.knows_host(headers.get("host", "")):
            return "This server answers only to its own name. Open the address that `membra serve` printed."
        if self.guard.people:
            key = own_key(scope) or headers.get("x-membra-key", "") or _cookie(headers.get("cookie", ""))
            scope[PERSON] = self.guard.people.named(key)
            if not scope[PERSON]:
                return (
                    "This server knows people by links of their own. Open yours; whoever runs the server makes one: "
                    "membra people FILE --add NAME"
                )
            if own_key(scope):
                self._ask(scope, headers)
            return self._cross_site(scope, headers)
        key = _asked_key(scope) or headers.get("x-membra-key", "") or _cookie(headers.get("cookie", ""))
        if not self.guard.lets_in(key):
            return "This server asks for a key. Open the whole address that `membra serve` printed, with ?key= in it."
        return self._cross_site(scope, headers)

    def _ask(self, scope: Scope, headers: dict[str, str]) -> None:
        """Store in `scope` the person of an opened link if it needs confirmation: another person is signed in in this
        browser, or may be, since a cross-site link does not send the cookie."""
        assert self.guard.people
        before = self.guard.people.named(_cookie(headers.get("cookie", "")))
        led = not before and headers.get("sec-fetch-site") not in ("none", "same-origin")
        another = before and not same_person(before, scope[PERSON])
        if led or another or scope["method"] == "POST":
            scope[ENTERING] = scope[PERSON]
            scope[PERSON] = before or scope[PERSON]

    def _cross_site(self, scope: Scope, headers: dict[str, str]) -> str:
        """Return why a changing request is rejected by its origin, or ""."""
        if scope["method"] in ("GET", "HEAD", "OPTIONS"):
            return ""
        # Browsers send the origin of a request; a form on another site must not act as this user.
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return "This request comes from another site."
        origin = headers.get("origin", "")
        # A proxy may replace the Host header by its own name for this server.
        if origin and urlsplit(origin).netloc not in (headers.get("host", ""), self.guard.public_host or None):
            return "This request comes from another site."
        return ""

    def _kept(self, scope: Scope) -> str:
        """Return the cookie to set if the request has a new key, else ""."""
        if self.guard.people and own_key(scope):
            return "" if ENTERING in scope else self.guard.cookie(own_key(scope))
        if not self.guard.people and not self.guard.local and self.guard.is_key(_asked_key(scope)):
            return f"{COOKIE}={self.guard.key}; HttpOnly; SameSite=Strict; Path=/"
        return ""


def own_key(scope: Scope) -> str:
    """Return the key in a personal link; keys in other URLs are ignored, since those are copied and shared."""
    return _asked_key(scope) if scope["path"] == ENTER and scope["method"] in ("GET", "POST") else ""


def _asked_key(scope: Scope) -> str:
    return str(parse_qs(scope["query_string"].decode("latin-1")).get("key", [""])[0])


def _cookie(header: str) -> str:
    """Return the key in a Cookie header; cookies of other services on the host must not break its parsing."""
    return cookie_parser(header).get(COOKIE, "")


async def _answer(send: Send, status: int, reason: str) -> None:
    body = reason.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode()), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
