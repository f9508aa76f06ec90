"""Run folders from somebody else, damaged ones, and starts that fail: nothing else is changed, and nothing is lost."""

import errno
import json
import os
from dataclasses import replace

import pytest

from rsl_rl.config.task import ToyConfig
from rsl_rl.loggers import Logger
from rsl_rl.loggers.logger import read_metrics
from rsl_rl.runners import OnPolicyRunner, TrainingError
from rsl_rl.runners.run_folder import LOCK, run_lock
from rsl_rl.tasks.toy import PointEnv
from rsl_rl.utils.config_io import read_yaml

FOLDERS = ("git", "videos", "superseded", "postmortem", "exported")
FILES = (LOCK, "metrics.jsonl", "config.yaml", "config_from_2.yaml", "events.out.tfevents.1.host.2.0")


def make_runner(cfg, folder):
    return OnPolicyRunner(PointEnv(ToyConfig(num_envs=16, episode_steps=10)), cfg, folder)


def resume(cfg, folder, iteration):
    resumed = make_runner(cfg, folder)
    resumed.load(folder / f"model_{iteration}.pt")
    resumed.learn(2)


@pytest.fixture
def run(small_cfg, tmp_path):
    """A run of four iterations, with TensorBoard."""
    cfg = replace(small_cfg, runner=replace(small_cfg.runner, logger="tensorboard"))
    make_runner(cfg, tmp_path / "run").learn(4)
    return tmp_path / "run"


def content(folder):
    """What is in a folder: bytes by path, None for what is no file."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("name", FOLDERS + FILES)
def test_learn_with_a_link_in_the_folder_raises_and_changes_nothing_elsewhere(small_cfg, run, tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir() if name in FOLDERS else elsewhere.write_text("mine")
    (run / name).rename(tmp_path / "old") if (run / name).exists() else None
    (run / name).symlink_to(elsewhere)
    before = content(run)
    with pytest.raises((TrainingError, OSError), match=f"{run / name} is a symbolic link.*delete it") as caught:
        resume(small_cfg, run, 2)
    assert "\n" not in str(caught.value) and content(run).keys() - {LOCK} == before.keys() - {LOCK}
    assert list(elsewhere.iterdir()) == [] if name in FOLDERS else elsewhere.read_text() == "mine"


@pytest.mark.parametrize("name", [LOCK, "metrics.jsonl"])
@pytest.mark.parametrize("kind", ["a hard link", "a pipe", "a device"])
def test_learn_with_another_name_of_a_file_a_pipe_or_a_device_raises(small_cfg, run, tmp_path, name, kind):
    (tmp_path / "elsewhere").write_text("mine")
    if (run / name).exists():
        (run / name).unlink()
    if kind == "a hard link":
        os.link(tmp_path / "elsewhere", run / name)
    elif kind == "a pipe":
        os.mkfifo(run / name)
    elif os.geteuid() == 0:
        os.mknod(run / name, 0o020666, os.makedev(1, 3))
    else:
        pytest.skip("only root can make a device")
    with pytest.raises((TrainingError, OSError), match=f"{name} is {kind}"):
        resume(small_cfg, run, 2)
    assert (tmp_path / "elsewhere").read_text() == "mine"


def test_learn_in_a_run_that_is_named_by_a_link_of_the_user_works(small_cfg, run, tmp_path):
    (tmp_path / "latest").symlink_to(run)
    resume(small_cfg, tmp_path / "latest", 4)
    assert (run / "model_6.pt").exists()


@pytest.mark.parametrize("text", ["[" * 20_000, '{"pid": 1e400, "host": "x"}', '{"pid": "\\n"}', '"x"', "\udcff"])
def test_run_lock_that_is_damaged_is_taken_over(tmp_path, text):
    (tmp_path / LOCK).write_text(text, errors="surrogateescape")
    with run_lock(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()


def test_learn_with_a_file_in_place_of_superseded_stops_and_changes_nothing(small_cfg, run):
    (run / "superseded").write_text("")
    before = content(run)
    with pytest.raises(TrainingError, match=r"files after iteration 2 cannot be moved to .*superseded.*none is lost"):
        resume(small_cfg, run, 2)
    assert content(run) == before


@pytest.mark.parametrize("call", range(1, 5))
def test_learn_on_a_disk_that_fills_while_files_are_moved_stops_and_changes_nothing(small_cfg, run, monkeypatch, call):
    (run / "model_best.pt").write_bytes((run / "model_4.pt").read_bytes())
    before, calls, replace_file = content(run), [], os.replace

    def full(source, target):
        calls.append((source, target))
        if len(calls) == call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace_file(source, target)

    resumed = make_runner(small_cfg, run)
    resumed.load(run / "model_2.pt")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(TrainingError, match=r"cannot be moved to .*No space left on device.*none is lost"):
        resumed.learn(1)
    assert len(calls) >= call
    assert {name: data for name, data in content(run).items() if name != "superseded"} == before


def test_learn_again_from_an_iteration_keeps_config_and_git_state_of_the_start_before(small_cfg, run):
    for coefficient in (0.1, 0.2):
        resume(replace(small_cfg, algorithm=replace(small_cfg.algorithm, entropy_coef=coefficient)), run, 2)
    (kept,) = (run / "superseded").glob("*/config_from_2.yaml")
    assert read_yaml(kept)["algorithm"]["entropy_coef"] == 0.1
    assert read_yaml(run / "config_from_2.yaml")["algorithm"]["entropy_coef"] == 0.2
    assert (kept.parent / "git_from_2").is_dir() == (run / "git_from_2").is_dir()


class Offline(Logger):
    """A logger that cannot start."""

    def __init__(self, log_dir, config):
        pass

    def start(self, first_iteration, last_iteration):
        raise RuntimeError("no connection")


class Bare(Logger):
    """A logger that takes no arguments."""


@pytest.mark.parametrize(
    "logger, message",
    [
        (
            "os:system",
            "the logger 'os:system' is a builtin_function_or_method; name a class derived from "
            "rsl_rl.loggers.logger.Logger, or one of none",
        ),
        (f"{__name__}:Bare", r"runner.logger=.*Bare cannot be called with \(log_dir, config\)"),
    ],
)
def test_runner_with_a_logger_that_is_none_raises(small_cfg, run, logger, message):
    with pytest.raises(ValueError, match=message):
        make_runner(replace(small_cfg, runner=replace(small_cfg.runner, logger=logger)), run)


def test_resumed_start_that_fails_leaves_no_config(small_cfg, run):
    broken = make_runner(replace(small_cfg, runner=replace(small_cfg.runner, logger=f"{__name__}:Offline")), run)
    broken.load(run / "model_4.pt")
    with pytest.raises(RuntimeError, match="no connection"):
        broken.learn(1)
    assert not list(run.glob("*_from_*"))


def test_resumed_start_killed_before_its_first_iteration_leaves_no_config(small_cfg, run):
    resumed = make_runner(small_cfg, run)
    resumed.load(run / "model_4.pt")
    resumed.collector.collect = None  # as far as a process gets that is killed while it collects
    with pytest.raises(TypeError):
        resumed.learn(1)
    assert not list(run.glob("*_from_*"))


DAMAGED = {
    b"[" * 20_000: "nested too deeply",
    b'{"iteration": 1, "x": "\xff"}': "utf-8",
    b"{}": "no object with an iteration",
    b'{"iteration": 2, "mean_reward": "much"}': "'mean_reward' is no number",
    b'{"iteration": 2': "Expecting",
    b"": "Expecting value",
}


@pytest.mark.parametrize("line", DAMAGED)
def test_read_metrics_names_file_and_line_of_damage(tmp_path, line):
    (tmp_path / "metrics.jsonl").write_bytes(b'{"iteration": 1}\n' + line + b'\n{"iteration": 2}\n')
    with pytest.raises(
        ValueError, match=rf"line 2 of {tmp_path}/metrics.jsonl is damaged: .*{DAMAGED[line]}"
    ) as caught:
        read_metrics(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("line", DAMAGED)
def test_resume_moves_damaged_lines_of_the_metrics_away(small_cfg, run, line):
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(line + b"\n")
    resume(small_cfg, run, 4)
    assert [record["iteration"] for record in read_metrics(run)] == [1, 2, 3, 4, 5, 6]
    assert line + b"\n" == (run / "superseded" / "after_4" / "metrics.jsonl").read_bytes()
