"""The server of a training's page: who is answered, and what browsers are told until the end."""

import http.client
import json
import socket
import threading

import pytest

from rsl_rl.viz import page_server
from rsl_rl.viz.page import PagePolicy
from rsl_rl.viz.page_server import PageServer
from rsl_rl.viz.request_guard import HOST, RequestGuard
from rsl_rl.viz.training_news import TrainingWatch


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(page_server, "_PERIOD", 0.05)
    guard = RequestGuard("secret")
    policy = PagePolicy(-1, None, "none yet", 0.0)
    server = PageServer(
        socket.create_server((HOST, 0)), guard, b"<p>page</p>", lambda: TrainingWatch(tmp_path, 0, 9), lambda: policy
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.end("test")
    thread.join()
    server.server_close()


def ask(server, path, **headers):
    connection = http.client.HTTPConnection(HOST, server.server_address[1], timeout=20)
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def news_of(response):
    """The next news of a stream."""
    line = response.readline()
    while line and not line.startswith(b"data: "):
        line = response.readline()
    return json.loads(line[6:]) if line else None


def test_server_gives_the_page_to_the_token_and_then_to_the_cookie(server):
    first = ask(server, "/?token=secret")
    assert (first.status, first.read()) == (200, b"<p>page</p>")
    assert first.headers["X-Content-Type-Options"] == "nosniff"
    assert first.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    cookie = first.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    second = ask(server, "/policy", Cookie=cookie.partition(";")[0])
    assert json.load(second) == {"checkpoint": -1, "robot": None, "problem": "none yet", "pause": 0.0}


@pytest.mark.parametrize("path", ["/", "/events", "/policy"])
@pytest.mark.parametrize(
    "headers", [{}, {"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Cookie": "rsl_rl_0=secret"}], ids=str
)
def test_server_refuses_foreign_requests(server, path, headers):
    given = path if headers in ({}, {"Cookie": "rsl_rl_0=secret"}) else f"{path}?token=secret"
    response = ask(server, given, **headers)
    assert response.status == 403 and response.headers["Set-Cookie"] is None
    assert b"page</p>" not in response.read()


def test_server_has_no_other_files(server):
    assert ask(server, "/etc/passwd?token=secret").status == 404
    assert ask(server, "/../etc/passwd?token=secret").status == 403


def test_server_tells_every_browser_what_is_new_and_the_end(server, tmp_path):
    streams = [ask(server, "/events?token=secret") for _ in range(3)]
    for stream in streams:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        assert news_of(stream)["records"] == []
    (tmp_path / "metrics.jsonl").write_text('{"iteration": 1, "<script>": 2}\n')
    for stream in streams:
        assert news_of(stream)["records"] == [{"iteration": 1, "<script>": 2}]
    streams.pop().close()  # a browser that goes
    server.end("done: here")
    for stream in streams:
        assert news_of(stream)["ending"] == "done: here"
        assert news_of(stream) is None


def test_server_with_too_many_browsers_refuses_the_next(server, monkeypatch):
    streams = [ask(server, "/events?token=secret") for _ in range(page_server._MOST_STREAMS)]
    assert all(news_of(stream) for stream in streams)
    assert ask(server, "/events?token=secret").status == 503


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n"]
)
def test_server_survives_requests_that_make_no_sense(server, content, capsys):
    with socket.create_connection((HOST, server.server_address[1]), timeout=20) as connection:
        connection.sendall(content)
        while connection.recv(4096):
            pass
    assert ask(server, "/?token=secret").status == 200
    assert capsys.readouterr().err == ""
