"""Exchange with the Hugging Face Hub: its own library against a server on this machine that speaks the calls."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.zoo.example_entry import CARD, write_example
from tests.zoo.hub_server import serve_hub

REPOSITORY = "user/zoo"


@pytest.fixture
def hub(tmp_path, root):
    """Run `rsl-rl zoo` with the server as the Hub; ``hub.server`` is the server."""
    pytest.importorskip("huggingface_hub")
    with serve_hub() as server:

        def run(*words, token="hf_of_the_test"):
            own = {"HF_ENDPOINT": server.address, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": token}
            command = [sys.executable, "-m", "rsl_rl", "zoo", *words, "--zoo", str(tmp_path / "zoo")]
            environment = {**os.environ, **own, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
            return subprocess.run(
                command, cwd=root, env=environment, capture_output=True, text=True, timeout=120, check=False
            )

        run.server = server
        yield run


def test_entry_is_pushed_and_pulled_as_it_is(hub, tmp_path):
    folder = write_example(tmp_path / "zoo", film="film.webp", film_content=b"frames")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "notes.txt").write_text("not a part of the entry")
    assert hub("push", "dog", REPOSITORY).returncode == 0
    assert hub.server.repositories[REPOSITORY] == {f"dog/{name}": content for name, content in before.items()}
    assert "user/zoo has dog" in hub("pull", REPOSITORY).stdout
    folder.rename(tmp_path / "former")
    done = hub("pull", REPOSITORY, "dog")
    assert done.returncode == 0 and "licence: BSD-3-Clause" in done.stdout, done.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_pull_of_what_is_not_there_or_not_whole_is_one_line(hub, tmp_path):
    folder = write_example(tmp_path / "other")
    files = {f"dog/{path.name}": path.read_bytes() for path in folder.iterdir()}
    hub.server.repositories[REPOSITORY] = {**files, "dog/policy.onnx": b"another network"}
    for words, message in (
        ((REPOSITORY, "dgo"), "has no policy 'dgo'; it has dog. Did you mean 'dog'?"),
        ((REPOSITORY, "dog"), "is not the policy of its card"),
        (("user/none",), "there is no repository user/none"),
    ):
        done = hub("pull", *words)
        assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "zoo" / "dog").exists()


def test_push_without_a_token_is_one_line(hub, tmp_path):
    write_example(tmp_path / "zoo")
    done = hub("push", "dog", REPOSITORY, token="hf_wrong")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and hub.server.repositories == {}


@pytest.mark.parametrize("where", ["task", "command"])
def test_pull_of_a_card_that_names_code_is_refused(where):
    hub = pytest.importorskip("rsl_rl.zoo.hub")
    command = (
        f"rsl-rl train --task go2_flat --logger {'os:system' if where == 'command' else 'none'} --sim_device cuda:0"
    )
    card = replace(
        CARD,
        task="their_package:Task" if where == "task" else "go2_flat",
        training=replace(CARD.training, command=command),
    )
    with pytest.raises(ValueError, match=r"names code, (os:system|their_package:Task)"):
        hub.require_no_code(card)
    hub.require_no_code(replace(CARD, training=replace(CARD.training, command=command.replace("os:system", "none"))))
