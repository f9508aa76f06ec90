"""Serve the page of a training on this computer, with what is new in it as it comes."""

from __future__ import annotations

import json
import socket
import sys
import threading
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any, Callable, List, Optional
from urllib.parse import urlsplit

from rsl_rl.utils.text import one_line
from rsl_rl.viz.page import PagePolicy
from rsl_rl.viz.request_guard import RequestGuard
from rsl_rl.viz.training_news import TrainingWatch

_PERIOD = 1.0  # time between two looks for news [s]
_QUIET = 10  # looks without news, after which the connection is tested
_TIMEOUT = 20.0  # for a request, and for a browser that reads no news [s]
_MOST_STREAMS = 20  # browsers that get news

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of each response; the page has a Content-Security-Policy of its own besides."""


class PageServer(ThreadingHTTPServer):
    """Answer requests of browsers, each in a thread: the page at ``/``, news at ``/events`` and the newest policy at
    ``/policy``.

    ``watch`` returns a new watch of the training for each browser.
    """

    daemon_threads = True

    def __init__(
        self,
        listening: socket.socket,
        guard: RequestGuard,
        page: bytes,
        watch: Callable[[], TrainingWatch],
        policy: Callable[[], PagePolicy],
    ):
        super().__init__(listening.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.guard, self.page, self.watch, self.policy = guard, page, watch, policy
        self.ending = ""
        self.has_ended = threading.Event()
        self.streams = threading.BoundedSemaphore(_MOST_STREAMS)
        self._open: List[threading.Thread] = []

    def end(self, text: str) -> None:
        """Tell all browsers how the training has ended, and stop."""
        self.ending = text
        self.has_ended.set()
        for thread in self._open:
            thread.join(_PERIOD)
        self.shutdown()

    def note_stream(self) -> None:
        """Remember the thread of a browser that gets news."""
        self._open = [thread for thread in self._open if thread.is_alive()] + [threading.current_thread()]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say in one line what a request has done; a browser that has gone is no error."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            print("page:", one_line(repr(error)), file=sys.stderr, flush=True)


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    timeout = _TIMEOUT
    server_version, sys_version = "rsl_rl", ""

    def do_GET(self) -> None:
        request = SimpleNamespace(path=self.path, headers=_Headers(self.headers))
        reason = self.server.guard.refusal(request)
        if reason is not None:
            return self._respond(HTTPStatus.FORBIDDEN, "text/plain", f"{reason}\n".encode(), is_own=False)
        path = urlsplit(self.path).path
        if path == "/":
            self._respond(HTTPStatus.OK, "text/html", self.server.page)
        elif path == "/policy":
            content = json.dumps(asdict(self.server.policy()), allow_nan=False).encode()
            self._respond(HTTPStatus.OK, "application/json", content)
        elif path == "/events":
            self._stream()
        else:
            self._respond(HTTPStatus.NOT_FOUND, "text/plain", b"there is no such page\n")

    def _stream(self) -> None:
        """Send what is new in the training, until it ends or the browser goes."""
        if not self.server.streams.acquire(blocking=False):
            return self._respond(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", b"too many browsers\n")
        try:
            self.server.note_stream()
            self._start(HTTPStatus.OK, "text/event-stream", None)
            watch, quiet = self.server.watch(), 0
            while True:
                has_ended = self.server.has_ended.is_set()
                news = watch.look(self.server.ending if has_ended else "")
                quiet = 0 if news else quiet + 1
                if news:
                    self.wfile.write(f"data: {json.dumps(asdict(news), allow_nan=False)}\n\n".encode())
                elif quiet % _QUIET == 0:
                    self.wfile.write(b": the training goes on\n\n")  # fails if the browser has gone
                if has_ended:
                    return
                self.server.has_ended.wait(_PERIOD)
        finally:
            self.server.streams.release()

    def _respond(self, status: HTTPStatus, kind: str, content: bytes, is_own: bool = True) -> None:
        self._start(status, kind, len(content), is_own)
        self.wfile.write(content)

    def _start(self, status: HTTPStatus, kind: str, size: Optional[int], is_own: bool = True) -> None:
        """Send the headers of a response; ``is_own`` is false for a request that is refused."""
        self.close_connection = True
        self.send_response(status)
        sized = {} if size is None else {"Content-Length": str(size)}
        own = {**HEADERS, **(self.server.guard.headers if is_own else {})}
        for name, value in {"Content-Type": f"{kind}; charset=utf-8", **sized, **own}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the terminal is that of the training."""


class _Headers:
    """Headers of a request as :class:`RequestGuard` reads them."""

    def __init__(self, message: Any):
        self._message = message

    def get_all(self, name: str) -> List[str]:
        return [str(value) for value in self._message.get_all(name, [])]
