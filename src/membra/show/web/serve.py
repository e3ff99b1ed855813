"""Run the workbench until it is stopped."""

import socket
from collections.abc import Callable
from pathlib import Path

from membra.errors import Unavailable, Unsupported, system_says
from membra.store.people import People

URL = "http://127.0.0.1:8000/"  # default URL


def serve(
    path: str | Path,
    host: str = "127.0.0.1",
    port: int = 8000,
    say: Callable[[str], None] = print,
    base_url: str = "",
    people: str | Path | None = None,
    give: Callable[[str, str], None] = print,
) -> None:
    """Serve the workbench of a collection until it is stopped. Needs the extra `[web]`.

    Parameters
    ----------
    path : path
        The collection's folder.
    host : str
        Address to listen on. For other machines, the URL has a key that visitors need.
    port : int
        Port to listen on; 0 picks a free one.
    say : callable
        Called with the URL once the port is bound.
    base_url : str
        Public URL of this server, e.g. https://example.org/membra/, for exported manifests.
    people : path, optional
        A file of `people`: each signs in by a personal link and under their name; no other person has access.
    give : callable
        Called with name and link of every person without a key in that file; the link is valid until the server stops.

    Raises
    ------
    MembraError
        If a package is missing, the port is taken, or there is no collection.
    """
    path = Path(path)
    try:
        import uvicorn

        from membra.show.web.app import create_app
        from membra.show.web.safety import Guard
    except ImportError as error:
        raise Unsupported(
            "the workbench needs a package that is not installed ({package}); run `pip install 'membra[web]'`",
            package=error.name,
        ) from None
    known = People(Path(people)) if people is not None else None
    guard = Guard(host=host, people=known, public=base_url)
    app = create_app(path, guard=guard, base_url=base_url)
    listening = _listen(host, port)
    bound = listening.getsockname()[1]
    name = f"[{host}]" if ":" in host else host
    own = f"http://{name}:{bound}/"
    say(own + ("" if guard.local or known else f"?key={guard.key}"))
    for person, key in known.links.items() if known else ():
        give(person, f"{base_url.rstrip('/')}/enter?key={key}" if base_url else f"{own}enter?key={key}")
    settings = uvicorn.Config(app, log_level="warning", server_header=False, timeout_graceful_shutdown=5)
    uvicorn.Server(settings).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        raise Unavailable(
            "cannot listen on {host}, port {port} ({why}); give another --port or --host",
            host=host,
            port=port,
            why=system_says(error),
        ) from None
    return listening
