"""Refuse requests to a local web server that do not come from the user's own browser."""

from __future__ import annotations

import contextlib
import secrets
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Any, Callable, Iterator, List, Optional
from urllib.parse import parse_qs, unquote, urlsplit

HOST = "127.0.0.1"
"""Address at which viewers serve: of this computer only."""

_LOCAL_HOSTS = ("localhost", HOST, "::1")

ProcessRequest = Callable[[Any, Any], Any]
"""Handler of the package websockets: connection and request -> response, or None to open a WebSocket."""


class RequestGuard:
    """Check each request of a server of the package websockets before the server's own handler sees it.

    The first request must have the token in its address (``?token=...``); it gets a cookie, which later requests must
    have. ``Host`` must be this computer, ``Origin`` the server itself, and no path may leave the folder of the page.
    """

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(24)
        self._cookie = f"rsl_rl_{secrets.token_hex(4)}"  # cookies are shared between the ports of a computer

    def wrap(self, process_request: Optional[ProcessRequest]) -> ProcessRequest:
        """Return the handler with the checks before it."""

        def checked(connection: Any, request: Any) -> Any:
            reason = self.refusal(request)
            if reason is not None:
                return connection.respond(HTTPStatus.FORBIDDEN, f"{reason}\n")
            response = process_request(connection, request) if process_request is not None else None
            if response is not None:
                response.headers["Set-Cookie"] = f"{self._cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
                response.headers["Referrer-Policy"] = "no-referrer"
            return response

        return checked

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


@contextlib.contextmanager
def guarded_servers(guard: RequestGuard) -> Iterator[None]:
    """Let servers of the package websockets that start in this context use the guard."""
    import websockets.asyncio.server as server

    serve = server.serve

    def guarded_serve(*args: Any, process_request: Optional[ProcessRequest] = None, **settings: Any) -> Any:
        return serve(*args, process_request=guard.wrap(process_request), **settings)

    server.serve = guarded_serve  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        server.serve = serve  # type: ignore[misc]
