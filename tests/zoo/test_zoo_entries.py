"""Entries of a zoo: those of the checkout are whole, and what is not whole is refused."""

import errno
import json
import os
from dataclasses import replace

import pytest

from rsl_rl.zoo import entries
from rsl_rl.zoo.entries import CARD as CARD_FILE
from rsl_rl.zoo.entries import CONFIG, FILES, ONNX, README, Zoo, files_of, read_entry, setting_differences, write_entry
from rsl_rl.zoo.readme import card_markdown
from tests.zoo.example_entry import CARD, NETWORK, write_example

ALL_ENTRIES = 4_000_000
"""Largest size of the zoo in the wheel [bytes]."""


def test_shipped_entries_are_whole_and_their_readable_cards_are_those_of_the_cards(root):
    zoo = Zoo(root / "zoo")
    found = [zoo.find(name) for name in zoo.names()]
    assert "go2_flat" in zoo.names() and sum(entry.size for entry in found) <= ALL_ENTRIES
    for entry in found:
        assert sorted(path.name for path in entry.folder.iterdir()) == sorted(files_of(entry.card))
        assert (entry.folder / README).read_text() == card_markdown(entry.card)
        assert not entry.card.training.changed_files


def test_shipped_policies_say_no_path_of_the_machine_that_made_them(root):
    for path in (root / "zoo").rglob("*"):
        content = path.read_bytes() if path.is_file() and path.suffix != ".pyc" else b""
        assert str(root).encode() not in content and b"/tmp/" not in content and b"/home/" not in content, path


def test_zoo_with_an_unknown_name_says_which_there_are(tmp_path):
    write_example(tmp_path)
    with pytest.raises(ValueError, match=r"no policy 'dgo'; it has dog\. Did you mean 'dog'\?"):
        Zoo(tmp_path).find("dgo")
    with pytest.raises(ValueError, match="it has none"):
        Zoo(tmp_path / "empty").find("dog")


def test_zoo_does_not_leave_its_folder(tmp_path):
    write_example(tmp_path, "dog")
    with pytest.raises(ValueError, match="has no policy"):
        Zoo(tmp_path / "dog").find("../dog")


def test_entry_with_another_network_is_refused(tmp_path):
    folder = write_example(tmp_path)
    (folder / ONNX).write_bytes(NETWORK + b"!")
    with pytest.raises(ValueError, match=r"is not the policy of its card.*it is not run"):
        Zoo(tmp_path).find("dog")


@pytest.mark.parametrize("name", [name for name in FILES if name != CARD_FILE])
def test_entry_without_a_file_is_refused(name, tmp_path):
    folder = write_example(tmp_path)
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"has no file {name}"):
        Zoo(tmp_path).find("dog")
    (folder / name).symlink_to("/dev/zero")
    with pytest.raises(FileNotFoundError, match=f"has no file {name}"):
        Zoo(tmp_path).find("dog")


def test_entry_with_a_film_has_it_in_its_files_and_its_readable_card(tmp_path):
    folder = write_example(tmp_path, film="film.webp", film_content=b"frames")
    assert read_entry(folder).size == sum(path.stat().st_size for path in folder.iterdir())
    assert "(film.webp)" in (folder / README).read_text()
    (folder / "film.webp").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no file film\.webp"):
        read_entry(folder)
    with pytest.raises(ValueError, match="film="):
        write_example(tmp_path, "cat", film="../film.webp")


def test_entry_in_the_folder_of_another_name_is_refused(tmp_path):
    write_example(tmp_path).rename(tmp_path / "cat")
    with pytest.raises(ValueError, match="is the card of dog"):
        Zoo(tmp_path).find("cat")


def add(zoo, files, card=CARD, replaces=False):
    with zoo.new_entry(card.name, replaces) as folder:
        write_entry(folder, card, files)


CONTENT = {ONNX: NETWORK, "policy.json": b"{}", CONFIG: b"seed: 3\n"}


def test_new_entry_replaces_another_only_if_asked(tmp_path):
    zoo = Zoo(tmp_path / "zoo")
    add(zoo, CONTENT)
    with pytest.raises(ValueError, match="exists; give another --name, or --replace"):
        add(zoo, CONTENT)
    add(zoo, CONTENT, replace(CARD, robot="another"), replaces=True)
    assert zoo.find("dog").card.robot == "another"
    assert [path.name for path in zoo.folder.iterdir()] == ["dog"]


def test_new_entry_that_is_too_large_or_not_whole_is_not_added(tmp_path, monkeypatch):
    zoo = Zoo(tmp_path / "zoo")
    with pytest.raises(ValueError, match="is not the policy of its card"):
        add(zoo, {**CONTENT, ONNX: b"another"})
    monkeypatch.setattr(entries, "LARGEST_ENTRY", 100)
    with pytest.raises(ValueError, match=r"an entry at most 0\.0001 MB"):
        add(zoo, CONTENT)
    assert list(zoo.folder.iterdir()) == []


def test_new_entry_on_a_full_disk_leaves_the_former_one(tmp_path, monkeypatch):
    zoo = Zoo(tmp_path / "zoo")
    add(zoo, CONTENT)

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device"):
        add(zoo, CONTENT, replace(CARD, robot="another"), replaces=True)
    monkeypatch.undo()
    assert zoo.find("dog").card == CARD and [path.name for path in zoo.folder.iterdir()] == ["dog"]


def test_new_entry_where_nothing_can_be_written_is_one_error():
    with pytest.raises(OSError, match="/proc/zoo"):
        add(Zoo(entries.Path("/proc/zoo")), CONTENT)


def test_setting_differences_name_settings_that_change_weights(tmp_path):
    before, after = tmp_path / "before.yaml", tmp_path / "after.yaml"
    before.write_text(
        "seed: 1\nsim_device: cpu\nrunner: {run_name: a, max_iterations: 3}\nenv: {gate: {fall_rate: 1}}\n"
    )
    after.write_text("seed: 1\nsim_device: cuda\nrunner: {run_name: b, max_iterations: 4}\nenv: {gate: {}}\n")
    assert setting_differences(before, before) == []
    assert [line.partition(":")[0] for line in setting_differences(before, after)] == [
        "env.gate",
        "env.gate.fall_rate",
        "runner.max_iterations",
    ]


def test_entry_is_read_from_its_files(tmp_path):
    entry = read_entry(write_example(tmp_path))
    assert entry.card == replace(CARD, name="dog") and entry.onnx.read_bytes() == NETWORK
    assert entry.size == sum(len((entry.folder / name).read_bytes()) for name in FILES)
    assert json.loads((entry.folder / CARD_FILE).read_text())["format"] == 1
