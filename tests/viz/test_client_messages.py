"""Malformed messages to the web viewer: one line each, and the viewer goes on."""

import contextlib
import math
import re
import socket
import subprocess
import sys
import time

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

viser = pytest.importorskip("viser")
pytest.importorskip("websockets")
from websockets.exceptions import ConnectionClosed  # noqa: E402
from websockets.sync.client import connect  # noqa: E402

SERVER = """
import sys, time, threading, gc
import numpy as np
from rsl_rl.robots.go2 import GO2
from rsl_rl.viz.web_viewer import WebViewer

viewer = WebViewer(GO2.model_path, ((-1.0, 1.0), (-0.5, 0.5), (-1.0, 1.0)), (0.2, 0.0, 0.0), int(sys.argv[1]))
print(viewer.address, flush=True)
for line in sys.stdin:  # each asks for the command
    gc.collect()  # asyncio reports the errors of tasks that nobody awaits when they are collected
    print(*viewer.command, flush=True)
viewer.close()
"""
CAMERA = {
    "type": "ViewerCameraMessage",
    "wxyz": [1.0, 0.0, 0.0, 0.0],
    "position": [1.0, -1.0, 0.5],
    "fov": 1.3,
    "near": 0.01,
    "far": 1000.0,
    "image_height": 480,
    "image_width": 640,
    "look_at": [0.0, 0.0, 0.2],
    "up_direction": [0.0, 0.0, 1.0],
}
UPDATE = {"type": "GuiUpdateMessage", "uuid": "x", "updates": {"value": 1.0}}
COMMAND = {"type": "CommandTriggerMessage", "uuid": "x"}
DRAG = {
    "type": "SceneNodeDragMessage",
    "phase": "end",
    "name": "/robot0/1/3",
    "instance_index": None,
    "start_position": [0.0, 0.0, 0.3],
    "start_screen_pos": [0.5, 0.5],
    "end_position": [0.2, 0.1, 0.3],
    "end_screen_pos": [0.6, 0.5],
    "button": "left",
    "modifier": None,
    "owner": "",
}
LINE = re.compile(r"viewer: \S.*")


class Server:
    """A viewer in a process of its own."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.errors = folder / "stderr.txt"
        command = [sys.executable, "-c", SERVER, str(self.port)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(command, stderr=errors, **pipes)
        self.address = self.process.stdout.readline().strip()
        self.port = int(re.search(r":(\d+)/", self.address)[1])

    def connect(self):
        address, version = self.address.replace("http", "ws"), f"viser-v{viser.__version__}"
        return connect(address, subprotocols=[version], compression=None, max_size=None, proxy=None)

    def command(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return tuple(map(float, self.process.stdout.readline().split()))

    def slider(self):
        """Return the identity of the first slider, as a browser learns it."""
        with self.connect() as browser:
            browser.send(msgspec.msgpack.encode(CAMERA))
            for _ in range(50):
                for message in decoded(browser.recv(timeout=10)):
                    if message["type"] == "GuiSliderMessage":
                        return message["uuid"]
        raise AssertionError("no slider")


def decoded(frame):
    import zstandard

    size, compressed = (int.from_bytes(frame[i : i + 8], "little") for i in (0, 8))
    inner = zstandard.ZstdDecompressor().decompress(frame[16 : 16 + compressed], max_output_size=size)
    return msgspec.msgpack.decode(inner)["messages"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("viewer"))
    yield server
    server.process.stdin.close()
    server.process.stdout.close()
    assert server.process.wait(20) == 0
    lines = server.errors.read_text().splitlines()
    assert all(LINE.fullmatch(line) for line in lines), lines[:20]


def closes(server, message):
    """Return whether the server closes the connection of a browser that sends a message."""
    with server.connect() as browser:
        browser.send(msgspec.msgpack.encode(CAMERA))
        browser.send(message)
        try:
            while True:
                browser.recv(timeout=10)
        except TimeoutError:
            return False
        except ConnectionClosed:
            return True


def lines_of(server):
    server.command()
    return server.errors.read_text().splitlines()


def changed(message, **fields):
    return msgspec.msgpack.encode({**message, **fields})


MALFORMED = {
    "text": "hello",
    "empty": b"",
    "no msgpack": b"\xc1",
    "cut": msgspec.msgpack.encode(CAMERA)[:-3],
    "no mapping": msgspec.msgpack.encode([1, 2]),
    "no type": msgspec.msgpack.encode({"uuid": "x"}),
    "type of a list": msgspec.msgpack.encode({"type": [1]}),
    "unknown type": msgspec.msgpack.encode({"type": "Nonsense\x1b[31m"}),
    "nested": b"\x91" * 50_000,
    "private attribute": changed(UPDATE, updates={"update_cb": 1}),
    "no update": changed(UPDATE, updates=3),
    "value of a list": changed(UPDATE, updates={"value": [[1]]}),
    "unknown field": changed(COMMAND, more=1),
    "missing field": msgspec.msgpack.encode({"type": "GuiUpdateMessage", "uuid": "x"}),
    "uuid of a list": changed(COMMAND, uuid=[1]),
    "camera of text": changed(CAMERA, position="abc"),
    "camera of two": changed(CAMERA, position=[1.0, 2.0]),
    "camera not finite": changed(CAMERA, position=[math.nan, 0.0, math.inf]),
    "drag not finite": changed(DRAG, end_position=[math.nan, 0.0, math.inf]),
    "drag of a long name": changed(DRAG, name="/robot0" * 100),
    "drag of another button": changed(DRAG, button="all"),
    "tunnel to the internet": msgspec.msgpack.encode({"type": "ShareUrlRequest"}),
    "upload": msgspec.msgpack.encode({"type": "FileTransferPart"}),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_viewer_malformed_message_is_one_line_and_closes_the_connection(server, name):
    before = len(lines_of(server))
    assert closes(server, MALFORMED[name])
    after = lines_of(server)[before:]
    assert len(after) == 1 and LINE.fullmatch(after[0]) and after[0].isprintable()
    assert server.command() == (0.2, 0.0, 0.0)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(
    [
        "value",
        "uuid",
        "phase",
        "name",
        "end_position",
        "updates",
        "position",
        "wxyz",
        "fov",
        "look_at",
        "type",
        "image_width",
    ]
)
messages = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=20),
    st.builds(
        lambda message, more: msgspec.msgpack.encode({**message, **more}),
        st.sampled_from([CAMERA, UPDATE, COMMAND, DRAG]),
        st.dictionaries(fields, values, max_size=3),
    ),
    st.builds(lambda value: changed(UPDATE, updates={"value": value}), values),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(messages, min_size=1, max_size=30))
@example([changed(UPDATE, updates={"value": "nan"})])
@example([changed(CAMERA, wxyz=[0.0] * 4, look_at=CAMERA["position"], up_direction=[0.0] * 3)])
def test_viewer_any_messages_leave_it_running_without_tracebacks(server, sequence):
    slider = server.__dict__.setdefault("slider_id", None) or server.slider()
    server.slider_id = slider
    with contextlib.suppress(ConnectionClosed, TimeoutError), server.connect() as browser:
        browser.send(msgspec.msgpack.encode(CAMERA))
        for message in sequence:
            if isinstance(message, bytes):
                message = message.replace(b"\xa4uuid\xa1x", b"\xa4uuid" + msgspec.msgpack.encode(slider))
            browser.send(message)
        while True:
            browser.recv(timeout=0.1)
    assert all(-limit <= value <= limit for value, limit in zip(server.command(), (1.0, 0.5, 1.0)))
    assert all(LINE.fullmatch(line) for line in lines_of(server)), lines_of(server)[:20]
    with server.connect() as browser:  # others are served
        assert decoded(browser.recv(timeout=10))


@pytest.mark.parametrize(
    "request_bytes",
    [b"", b"\x00\xff\xfe" * 50, b"GET / HTTP/1.1\r\n", b"GET / HTTP/9\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n"],
)
def test_viewer_broken_http_request_of_a_stranger_prints_nothing(tmp_path, server, request_bytes):
    before = lines_of(server)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as stranger:
        stranger.sendall(request_bytes)
        stranger.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while stranger.recv(1000):
                pass
    time.sleep(0.1)
    assert lines_of(server) == before
