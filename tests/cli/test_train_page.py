"""`rsl-rl train --page`: the address, the end of the training, and what cannot be served."""

import json
import os
import re
import signal
import socket
import time
import urllib.error
import urllib.request

import pytest

from rsl_rl.viz import page

TOY = ("--task", "toy", "--num_envs", "16", "--logger", "none")

if not page.TEMPLATE.is_file():
    pytest.skip("the page is not built: make page", allow_module_level=True)


@pytest.fixture
def start_training(programs, tmp_path):
    """Start a training with a page; return its process and the address of the page."""
    started = []

    def start(*flags):
        process = programs.start("-m", "rsl_rl", "train", *TOY, "--log_root", tmp_path, *flags)
        started.append(process)
        return process, next(line.split()[1] for line in process.stdout if line.startswith("page: "))

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


def stream(address):
    return urllib.request.urlopen(address.replace("/?", "/events?"), timeout=60)


def last_news(events):
    lines = [line for line in events.read().splitlines() if line.startswith(b"data: ")]
    return json.loads(lines[-1][6:])


def is_served(address):
    try:
        return urllib.request.urlopen(address, timeout=5).status == 200
    except (urllib.error.URLError, OSError):
        return False


def test_train_with_a_page_tells_the_browser_the_end_and_frees_the_port(start_training, tmp_path):
    process, address = start_training("--page", "0", "--max_iterations", "60")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", address)
    events = stream(address)
    output, errors = process.communicate(timeout=120)
    (run,) = (tmp_path / "toy").iterdir()
    news = last_news(events)
    assert (process.returncode, errors) == (0, "")
    assert news["ending"] == f"done: {run}" == output.splitlines()[-1]
    assert news["newest"]["iteration"] == 60 and news["checkpoint"] == 60
    assert not is_served(address)


@pytest.mark.parametrize(
    "number, code",
    [(signal.SIGINT, 130), pytest.param(signal.SIGKILL, -9, marks=pytest.mark.slow)],
    ids=["ctrl-c", "kill"],
)
def test_train_with_a_page_that_is_stopped_tells_the_browser(start_training, number, code):
    process, address = start_training("--page", "0", "--max_iterations", "1000000")
    events = stream(address)
    events.readline()
    time.sleep(1.0)  # until the training has begun
    os.kill(process.pid, number)
    news = last_news(events)
    process.communicate(timeout=60)
    assert process.returncode == code
    assert news["ending"].startswith("interrupted by SIGINT" if number == signal.SIGINT else "the training was stopped")
    until = time.monotonic() + 30
    while is_served(address):
        assert time.monotonic() < until


@pytest.mark.slow
def test_train_that_is_resumed_has_a_page_of_all_iterations(start_training, rsl_rl_here, tmp_path, capsys):
    assert rsl_rl_here("train", *TOY, "--log_root", str(tmp_path), "--max_iterations", "3") == 0
    process, address = start_training("--resume", "--page", "0", "--max_iterations", "200")
    with stream(address) as events:
        process.communicate(timeout=60)
        news = [json.loads(line[6:]) for line in events.read().splitlines() if line.startswith(b"data: ")]
    assert [record["iteration"] for some in news for record in some["records"]] == list(range(1, 201))


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_train_with_a_page_at_no_port_is_one_line(port, rsl_rl_here, tmp_path, capsys):
    assert rsl_rl_here("train", *TOY, "--log_root", str(tmp_path), f"--page={port}") == 2
    assert f"--page {port}: give a number from 1 to 65535, or 0" in capsys.readouterr().err
    assert not (tmp_path / "toy").exists()


def test_train_with_a_page_at_a_used_port_is_one_line(rsl_rl_here, tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert rsl_rl_here("train", *TOY, "--log_root", str(tmp_path), "--page", str(port)) == 2
    message = capsys.readouterr().err
    assert f"--page {port}: Address already in use; give another port, or 0 for a free one" in message
    assert not (tmp_path / "toy").exists()


def test_train_with_a_page_that_is_not_built_says_make_page(rsl_rl_here, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(page, "TEMPLATE", tmp_path / "page.html")
    assert rsl_rl_here("train", *TOY, "--log_root", str(tmp_path), "--page", "0") == 2
    assert "build it with: make page" in capsys.readouterr().err
    assert not (tmp_path / "toy").exists()
