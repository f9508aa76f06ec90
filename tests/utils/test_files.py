import os

import pytest

from rsl_rl.utils.files import (
    AppendFile,
    LinkError,
    atomic_write,
    is_regular_file,
    make_folder,
    read_file,
    remove_temporary_files,
    require_writable,
)


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "a"
    atomic_write(path, b"old")
    atomic_write(path, b"new")
    assert path.read_bytes() == b"new" and [p.name for p in tmp_path.iterdir()] == ["a"]


def test_what_a_killed_process_left_is_removed(tmp_path):
    (tmp_path / ".model_1.pt.77.part").write_bytes(b"half")
    (tmp_path / "model_1.pt").write_bytes(b"whole")
    remove_temporary_files(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["model_1.pt"]


def test_is_regular_file_of_what_a_rename_would_replace_is_false(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    names = ("file", "link", "dangling", "pipe", ".", "nowhere")
    assert [name for name in names if is_regular_file(tmp_path / name)] == ["file"]


def test_atomic_write_replaces_links_and_follows_none(tmp_path):
    (tmp_path / "elsewhere").write_text("mine")
    names = ("a", f".a.{os.getpid()}.part")  # also one that somebody has put in place of the temporary file
    for name in names:
        (tmp_path / name).symlink_to("elsewhere")
    atomic_write(tmp_path / "a", b"new", mode=0o600)
    assert (tmp_path / "elsewhere").read_text() == "mine" and not os.path.lexists(tmp_path / names[1])
    assert is_regular_file(tmp_path / "a") and (tmp_path / "a").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "large"])
def test_read_file_of_what_is_no_file_of_a_usual_size_raises(tmp_path, kind):
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.write_bytes(bytes(2000))
    with pytest.raises(ValueError, match="may have 0.001 MB" if kind == "large" else "is not a file; give a file"):
        read_file(path, largest=1000)
    (tmp_path / "small").write_bytes(b"text")
    assert read_file(tmp_path / "small", largest=1000) == b"text"


def test_append_file_and_make_folder_refuse_links(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    for name, target in (("a", "file"), ("b", "folder"), ("c", "nowhere")):
        (tmp_path / name).symlink_to(target)
        for opens in (AppendFile, make_folder, require_writable):
            with pytest.raises(LinkError, match=f"{tmp_path}/{name} is a symbolic link"):
                opens(tmp_path / name)
    os.link(tmp_path / "file", tmp_path / "d")
    with pytest.raises(LinkError, match=f"{tmp_path}/d is a hard link"):
        AppendFile(tmp_path / "d")
    assert not (tmp_path / "nowhere").exists()


def test_require_writable_of_a_folder_creates_it_and_leaves_nothing(tmp_path):
    require_writable(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="file"):
        require_writable(tmp_path / "file")


class Device:
    """A file that takes a few bytes at a time, and none beyond its room."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, view):
        if self.room == 0:
            raise OSError("no room")
        size = min(3, self.room, len(view))
        self.room -= size
        return self.file.write(view[:size])

    def __getattr__(self, name):
        return getattr(self.file, name)


def test_bytes_are_appended_whole_or_not_at_all(tmp_path):
    file = AppendFile(tmp_path / "a")
    file.append(b"0123456789")
    file._file = Device(file._file, room=5)
    with pytest.raises(OSError, match="no room"):
        file.append(b"abcdefgh")
    assert (tmp_path / "a").read_bytes() == b"0123456789"
    file._file.room = 100
    file.append(b"abcdefgh")
    file.sync()
    file.close()
    assert (tmp_path / "a").read_bytes() == b"0123456789abcdefgh"


def test_a_name_is_on_the_disk_when_the_call_returns(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")) or fsync(fd))
    atomic_write(tmp_path / "a", b"content")
    assert len(synced) == 2 and synced[0].endswith(".part") and synced[1] == str(tmp_path)
