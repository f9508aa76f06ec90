"""Refuse requests to a local web server that do not come from the user's own browser, and malformed messages."""

from __future__ import annotations

import contextlib
import logging
import secrets
import sys
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Any, Callable, Dict, Iterator, List, Optional, Union
from urllib.parse import parse_qs, unquote, urlsplit

from rsl_rl.utils.text import one_line

HOST = "127.0.0.1"
"""Address at which viewers serve: of this computer only."""

_LOCAL_HOSTS = ("localhost", HOST, "::1")

ProcessRequest = Callable[[Any, Any], Any]
"""Handler of the package websockets: connection and request -> response, or None to open a WebSocket."""

RefusalOfMessage = Callable[[Union[str, bytes]], Optional[str]]
"""Return why a message of a WebSocket is refused; None if it is not."""

_MAX_MESSAGE = 2**16  # of a browser [bytes]
_REFUSED = 1008  # code of a WebSocket that is closed because of a message


class RequestGuard:
    """Check each request of a local web server before the server's own handler sees it.

    The first request must have the token in its address (``?token=...``); it gets a cookie, which later requests must
    have. ``Host`` must be this computer, ``Origin`` the server itself, and no path may leave the folder of the page.
    """

    def __init__(self, token: str = "") -> None:
        self.token = token or secrets.token_urlsafe(24)
        self._cookie = f"rsl_rl_{secrets.token_hex(4)}"  # cookies are shared between the ports of a computer

    def wrap(self, process_request: Optional[ProcessRequest]) -> ProcessRequest:
        """Return the handler with the checks before it."""

        def checked(connection: Any, request: Any) -> Any:
            reason = self.refusal(request)
            if reason is not None:
                return connection.respond(HTTPStatus.FORBIDDEN, f"{reason}\n")
            response = process_request(connection, request) if process_request is not None else None
            if response is not None:
                for name, value in self.headers.items():
                    response.headers[name] = value
            return response

        return checked

    @property
    def headers(self) -> Dict[str, str]:
        """Headers of each response to a request that is not refused."""
        cookie = f"{self._cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
        return {"Set-Cookie": cookie, "Referrer-Policy": "no-referrer"}

    def refusal(self, request: Any) -> Optional[str]:
        """Return why a request (``path`` and ``headers``) is refused; None if it is not."""
        hosts, origins = request.headers.get_all("Host"), request.headers.get_all("Origin")
        if len(hosts) != 1 or _hostname(f"//{hosts[0]}") not in _LOCAL_HOSTS:
            return "this host name is not that of the viewer"
        if any(origin not in (f"http://{hosts[0]}", f"https://{hosts[0]}") for origin in origins):
            return "this page is not allowed to use the viewer"
        path, _, query = request.path.partition("?")
        if ".." in unquote(path).replace("\\", "/").split("/") or not path.startswith("/") or path.startswith("//"):
            return "this path is not served"
        given = [*parse_qs(query).get("token", []), *self._cookies(request.headers.get_all("Cookie"))]
        if not any(secrets.compare_digest(one.encode(), self.token.encode()) for one in given):
            return "open the address of the viewer with its token, as it was printed at the start"
        return None

    def _cookies(self, headers: List[str]) -> List[str]:
        """Return the values of the viewer's cookie."""
        values = []
        for header in headers:
            with contextlib.suppress(CookieError):
                cookies = SimpleCookie(header)
                values += [cookies[self._cookie].value] if self._cookie in cookies else []
        return values


def _hostname(url: str) -> Optional[str]:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def report(problem: str) -> None:
    """Print one line on a problem with a browser; the viewer goes on."""
    print("viewer:", one_line(problem), file=sys.stderr, flush=True)


class OneLineHandler(logging.Handler):
    """Report errors of a server in one line; a handshake that fails is that of a stranger or a closed tab."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR and record.getMessage() != "opening handshake failed":
            error = record.exc_info[1] if record.exc_info else None
            report(record.getMessage() + (f" ({error!r})" if error else ""))


def _quiet_logger() -> logging.Logger:
    logger = logging.Logger("rsl_rl.viewer")
    logger.addHandler(OneLineHandler())
    return logger


def _checked_connection(refusal_of: RefusalOfMessage) -> type:
    """Return a class of connections that close at the first message that is refused."""
    from websockets.asyncio.server import ServerConnection

    class CheckedConnection(ServerConnection):
        async def recv(self, decode: Optional[bool] = None) -> Any:
            message = await super().recv(decode)
            reason = refusal_of(message)
            if reason is None:
                return message
            report(f"a browser sent a malformed message and is disconnected: {reason}")
            await self.close(_REFUSED, reason)
            while True:  # until it raises ConnectionClosed
                await super().recv(decode)

    return CheckedConnection


@contextlib.contextmanager
def guarded_servers(guard: RequestGuard, refusal_of: RefusalOfMessage) -> Iterator[None]:
    """Let servers of the package websockets that start in this context use the guard, and check messages."""
    import websockets.asyncio.server as server

    serve = server.serve

    def guarded_serve(*args: Any, process_request: Optional[ProcessRequest] = None, **settings: Any) -> Any:
        own = {
            "create_connection": _checked_connection(refusal_of),
            "logger": _quiet_logger(),
            "max_size": _MAX_MESSAGE,
        }
        return serve(*args, process_request=guard.wrap(process_request), **{**settings, **own})

    server.serve = guarded_serve  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        server.serve = serve  # type: ignore[misc]
