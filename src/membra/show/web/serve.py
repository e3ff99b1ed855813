"""Run the workbench until it is stopped."""

import socket
from collections.abc import Callable
from pathlib import Path

from membra.errors import MembraError


def serve(path: Path, say: Callable[[str], None], *, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve the collection `path`. `say` is told the address. A port that is taken is an error before anything else."""
    try:
        import uvicorn

        from membra.show.web.app import create_app
        from membra.show.web.safety import Guard
    except ImportError as error:
        raise MembraError(
            f"the workbench needs a package that is not installed ({error.name}); run `pip install 'membra[web]'`"
        ) from None
    guard = Guard(host=host)
    app = create_app(path, guard=guard)
    listening = _listen(host, port)
    bound = listening.getsockname()[1]
    name = f"[{host}]" if ":" in host else host
    say(f"http://{name}:{bound}/" + ("" if guard.local else f"?key={guard.key}"))
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
        raise MembraError(
            f"cannot listen on {host}, port {port} ({error.strerror or error}); give another --port or --host"
        ) from None
    return listening
