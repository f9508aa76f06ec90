"""The command adopt: what it writes, and what it refuses."""

import importlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace
from xml.sax.saxutils import quoteattr

import pytest
import torch

from configs.go2_flat import go2_task
from rsl_rl.cli import adopt as command
from rsl_rl.cli.adopt_worker import possible_clips, require_task
from rsl_rl.cli.experiments import Experiments
from rsl_rl.cli.main import main
from rsl_rl.cli.signals import TERMINATED
from rsl_rl.config.mdp import CommandLimitConfig, RandomizationConfig
from rsl_rl.runners import OnPolicyRunner, run_folder
from rsl_rl.runners.run_folder import run_lock
from rsl_rl.tasks.mdp import motion_terms
from rsl_rl.tasks.mdp.motion import Reference
from tests.docs_blocks import commands
from tests.models_of_others import BIPED_DEFAULTS, biped_mjcf, quadruped_urdf, wheeled_urdf


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder, in which robots can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if name.split(".")[0] in ("dog", "walker", "my_dog", "d_o_g"):
            del sys.modules[name]


WORKER = """
import os, runpy, sys
sys.argv[5] = str(os.getppid())
runpy.run_module("rsl_rl.cli.adopt_worker", run_name="__main__")
"""


@pytest.fixture(autouse=True)
def _warm_worker(programs, monkeypatch):
    """Let the worker of the command come from a process that has imported torch; another Python is started as ever."""
    python = sys.executable

    def run(words, timeout, **others):
        if words[0] != python:
            return subprocess.run(words, timeout=timeout, **others)
        done = programs.run("-c", WORKER, *words[3:], timeout=timeout, cwd=os.getcwd())
        return subprocess.CompletedProcess(words, done.returncode, done.stdout.encode(), done.stderr.encode())

    known = {"DEVNULL": subprocess.DEVNULL, "TimeoutExpired": subprocess.TimeoutExpired}
    monkeypatch.setattr(command, "subprocess", SimpleNamespace(run=run, **known))


def adopt(file, *flags):
    """Run the command and return its exit code."""
    try:
        code = main(["adopt", str(file), "--no-pictures", *flags])
    except SystemExit as stop:
        code = stop.code
    importlib.invalidate_caches()
    return code


def test_adopted_quadruped_trains_and_mirrors(here, capsys, small_cfg):
    (here / "Dog.urdf").write_text(quadruped_urdf(flipped=True))
    assert adopt("Dog.urdf") == 0
    printed = capsys.readouterr().out
    assert "train it: rsl-rl train --task dog.flat:DogFlat" in printed and "standing: yes" in printed
    assert "audit: predicted dead zone: forward" in printed
    assert sorted(path.name for path in (here / "dog").iterdir() if path.name != "__pycache__") == [
        "__init__.py",
        "dog.xml",
        "flat.py",
        "report.html",
        "track.py",
    ]
    assert "LF_KFE" in (here / "dog" / "report.html").read_text()
    assert max(map(len, (here / "dog" / "flat.py").read_text().splitlines())) <= 120

    task = importlib.import_module("dog.flat").DogFlat().env
    assert task.commands.limit == CommandLimitConfig(max_lin_acc=2.0, max_yaw_acc=4.0)
    assert task.commands.slow_fraction == 0.3
    assert task.commands.standing_fraction > 0 and task.commands.standing_time > 0  # it learns to stand still:
    assert all(task.rewards.terms[name].weight < 0 for name in ("stand_still", "standing_steps"))
    assert "gait_clock" in task.commands.terms and task.gate["stop_drift"] <= 0.1
    env = replace(task, num_envs=8, randomization=RandomizationConfig.none()).build()
    for _ in range(50):  # one second with the targets of the standing pose
        step = env.step(torch.zeros(8, 12))
        assert not step.done.any()
    assert (env.state.gravity[:, 2] < -0.99).all()
    assert (env.state.foot_contact).all()
    index, sign = env.mirrors()["actions"]
    assert index.tolist() == [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8] and sign.tolist() == [1.0, -1.0, -1.0] * 4
    OnPolicyRunner(env, small_cfg).learn(1)


def test_adopted_quadruped_follows_reference_motions(here, capsys, small_cfg):
    (here / "dog.urdf").write_text(quadruped_urdf())
    assert adopt("dog.urdf") == 0
    printed = capsys.readouterr().out
    assert "motions: trot speed=0.31, trot speed=0.72, sit, stand_up, for the task dog.track:DogTrack" in printed
    assert max(map(len, (here / "dog" / "track.py").read_text().splitlines())) <= 120

    cfg = Experiments().load("dog.track:DogTrack")()
    links = cfg.env.metrics["mpkpe"].params["links"]
    assert links[:4] == ("root", "LF_THIGH", "LF_SHANK", "FL_foot") and len(links) == 13
    flat = importlib.import_module("dog.flat").flat_task()
    assert cfg.env.control == replace(flat.control, action_scale=cfg.env.control.action_scale)
    exact = {"joint_error": 0.0, "turn_error": 0.0, "velocity_error": 0.0, "height": 0.0}
    randomization = cfg.env.randomization.with_params("start_state", **exact)
    env = replace(cfg.env, num_envs=8, randomization=randomization).build(seed=1)
    reference = env.state.part(Reference)
    sit = torch.full((8,), reference.names.index("sit"))
    reference.start_at(sit, torch.zeros(8))  # a pose without a velocity, so that one control step changes nothing
    env.reset()
    assert motion_terms.mpkpe(env.state, links=links).max() < 1e-4
    assert (env.state.foot_height - env.state.robot.foot_radius).abs().max() < 2e-3  # the reference stands on the floor
    reference.start_at(sit, torch.full((8,), float("nan")))
    OnPolicyRunner(env, small_cfg).learn(2)


def test_adopted_biped_follows_reference_motions(here, root, capsys):
    assert adopt(root / "rsl_rl" / "robots" / "g1" / "g1.xml", "--name", "walker") == 0
    printed = capsys.readouterr().out
    assert "motions: walk speed=0.4, squat, side_step, for the task walker.track:WalkerTrack" in printed
    cfg = Experiments().load("walker.track:WalkerTrack")()
    shipped = Experiments().load("g1_track")()
    assert cfg.runner == replace(shipped.runner, experiment_name="walker_track") and cfg.policy == shipped.policy
    assert {name: term.weight for name, term in cfg.env.rewards.terms.items() if name != "torques"} == {
        name: term.weight for name, term in shipped.env.rewards.terms.items() if name != "torques"
    }


def test_adopted_g1_gets_the_recipe_of_the_shipped_one(here, root, capsys):
    assert adopt(root / "rsl_rl" / "robots" / "g1" / "g1.xml", "--name", "walker") == 0
    adopted, shipped = Experiments().load("walker.flat:WalkerFlat")(), Experiments().load("g1_flat")()
    assert adopted.runner == replace(shipped.runner, experiment_name="walker_flat")
    assert (adopted.policy, adopted.algorithm) == (shipped.policy, shipped.algorithm)
    own, theirs = adopted.env, shipped.env
    assert own.commands.terms["gait_clock"].params["period"] == pytest.approx(0.8, rel=0.05)
    assert replace(own.commands, terms=theirs.commands.terms) == theirs.commands
    weights = [{name: term.weight for name, term in task.rewards.terms.items()} for task in (own, theirs)]
    assert {**weights[0], "torques": weights[1]["torques"]} == weights[1]
    for name in ("track_lin_vel", "track_yaw_rate", "gait"):
        assert own.rewards.terms[name].params == theirs.rewards.terms[name].params
    for task in (own.build(), theirs.build()):
        torques = task.action_scale * task.context.per_joint("stiffness")  # of one unit of action
        assert torques[[4, 5, 10, 11]].numpy() == pytest.approx(10.0, rel=0.1)  # at the ankles
    pushes = [task.randomization.terms["push"] for task in (own, theirs)]
    assert pushes[0].params["push_velocity"] == pytest.approx(pushes[1].params["push_velocity"], rel=0.1)
    assert replace(pushes[0], params={**pushes[0].params, "push_velocity": 0.7}) == pushes[1]


def test_adopted_go2_gets_the_commands_pushes_and_weights_of_the_shipped_one(here, root):
    assert adopt(root / "rsl_rl" / "robots" / "go2" / "go2.xml", "--name", "dog", "--no-pictures") == 0
    adopted, shipped = Experiments().load("dog.flat:DogFlat")(), go2_task()
    assert (adopted.env.commands, adopted.env.randomization) == (shipped.commands, shipped.randomization)
    own, theirs = ({name: term.weight for name, term in task.rewards.terms.items()} for task in (adopted.env, shipped))
    assert own == {**theirs, "track_lin_vel": 2.0}  # large robots follow their faster commands with it


def test_motion_that_a_robot_cannot_make_is_left_out_with_a_note():
    clips, notes = possible_clips(("trot", "trot speed=9"), "go2")
    assert clips == ["trot"] and len(notes) == 1
    assert notes[0].startswith("note: no motion trot speed=9: a speed of 9.00 m/s is too fast")


def test_adopted_biped_is_a_task(here, capsys):
    (here / "defaults.xml").write_text(BIPED_DEFAULTS)
    (here / "walker.xml").write_text(biped_mjcf())
    assert adopt("walker.xml") == 0
    printed = capsys.readouterr().out
    assert "2 joints locked" in printed
    assert printed.count("note: no motion ") == 3 and "motions: none, so track.py is not written" in printed
    assert not (here / "walker" / "track.py").exists()  # the joints of this model turn by less than 3 degrees
    flat = importlib.import_module("walker.flat")
    env = replace(flat.flat_task(), num_envs=4).build()
    step = env.step(torch.zeros(4, 12))
    assert step.reward.isfinite().all() and env.state.foot_up.shape == (4, 2, 3)
    assert flat.flat_task().rewards.terms["stand_still"].weight < 0 and flat.flat_task().gate["stop_drift"] <= 0.1
    assert set(flat.ROBOT.joint_groups) == {"abduction", "hip_yaw", "hip", "knee", "ankle"}
    ankle = re.compile(flat.ROBOT.joint_groups["ankle"])
    is_ankle = torch.tensor([ankle.fullmatch(name) is not None for name in env.sim.joint_names])
    assert is_ankle.sum() == 4 and env.action_scale[~is_ankle].unique().numel() == 1
    assert (env.action_scale[is_ankle] / env.action_scale[~is_ankle][0]).numpy() == pytest.approx(0.2)


def test_refused_file_leaves_one_line_and_nothing_else(here, capsys):
    (here / "roller.urdf").write_text(wheeled_urdf())
    assert adopt("roller.urdf") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "stands on wheels (left_tire, right_tire)" in error
    assert [path.name for path in here.iterdir()] == ["roller.urdf"]


def test_flags_say_what_the_model_does_not(here, capsys):
    (here / "dog.urdf").write_text(quadruped_urdf())
    flags = ("--feet", "LF_FOOT,RF_FOOT,LH_FOOT,RH_FOOT", "--base", "trunk", "--lock", "neck=0.5", "--legs", "4")
    assert adopt("dog.urdf", *flags) == 0
    printed = capsys.readouterr().out
    assert "base trunk, legs FL, FR, RL, RR" in printed and "neck at 0.5 rad" in printed
    assert "neck 0.5" in (here / "dog" / "flat.py").read_text()


@pytest.mark.parametrize("given", ["neck", "=1", "neck=", "neck=nan", "neck=1deg"])
def test_lock_without_an_angle_is_refused(here, capsys, given):
    (here / "dog.urdf").write_text(quadruped_urdf())
    assert adopt("dog.urdf", "--lock", given) == 2
    error = capsys.readouterr().err
    assert "is not JOINT=ANGLE with an angle in rad" in error and error.count("\n") == 1


def test_warnings_and_faults_are_printed_and_written(here, capsys):
    text = re.sub(r'ixx="[^"]*" iyy="[^"]*" izz="[^"]*"', 'ixx="0" iyy="0" izz="0"', quadruped_urdf(effort=1.0))
    (here / "dog.urdf").write_text(text)
    assert adopt("dog.urdf") == 0
    printed = capsys.readouterr().out
    assert "warning: inertias that mass and shape cannot have" in printed
    assert "standing: no, " in printed and "motors at their torque limit" in printed
    report, config = ((here / "dog" / name).read_text() for name in ("report.html", "flat.py"))
    assert "inertias that mass and shape cannot have" in report and "motors at their torque limit" in report
    assert "inertias that mass and shape cannot have" in " ".join(config.split())


def test_flag_train_trains_the_task_that_was_written(here, monkeypatch):
    (here / "dog.urdf").write_text(quadruped_urdf())
    (here / "robots").mkdir()
    given = []
    monkeypatch.setattr("rsl_rl.cli.train.main", lambda argv: given.append(argv) or 0)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert adopt("dog.urdf", "--folder", "robots", "--train") == 0
    assert given == [["--task", "dog.flat:DogFlat"]]
    assert importlib.import_module("dog.flat").DogFlat().task == "dog.flat:DogFlat"


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--name", "my-dog"), "not a name of a Python package"),
        (("--name", "torch"), "installed package"),
        (("--name", "taken"), "exists already"),
        (("--folder", "missing"), "not a folder"),
        (("--folder", os.fsdecode(b"f\xff")), "name that is not UTF-8"),
        (("--name", "class"), "not a name of a Python package"),
        (("--name", "__main__"), "not a name of a Python package"),
        (("--name", "ﬁdo"), "not a name of a Python package"),  # a ligature, which Python reads as two letters
    ],
)
def test_name_that_cannot_be_used_is_refused(here, capsys, flags, reason):
    (here / "dog.urdf").write_text(quadruped_urdf())
    for name in ("taken", os.fsdecode(b"f\xff")):
        (here / name).mkdir()
    assert adopt("dog.urdf", *flags) == 2
    error = capsys.readouterr().err
    assert reason in error and error.count("\n") == 1


def test_names_that_look_like_code_stay_names(here, capsys):
    """Of links and joints, of the file and of its folder."""
    base = 'b",*([],open("ran","w"))[0],"c'
    text = quadruped_urdf().replace('"root"', quoteattr(base)).replace('"LF_HIP"', quoteattr('"""\\'))
    for leg in ("LF", "RF", "LH", "RH"):
        text = text.replace(f'"{leg}_KFE"', quoteattr(f"{leg}\\N{{'\"|(<é"))
    (here / 'D"""o\\--g.urdf').write_text(text)
    (here / "a b;").mkdir()
    assert adopt('D"""o\\--g.urdf', "--folder", "a b;") == 0
    words = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert words[2:] == [f"PYTHONPATH={here / 'a b;'}", "rsl-rl", "train", "--task", "d_o_g.flat:DOGFlat"]
    sys.path.insert(0, str(here / "a b;"))
    try:
        flat = importlib.import_module("d_o_g.flat")
    finally:
        sys.path.remove(str(here / "a b;"))
    assert flat.flat_task().terminations.contact_links == (base,)
    assert not list(here.rglob("ran"))


def test_task_that_does_not_work_is_an_error(here, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (here / "dog").mkdir()
    (here / "dog" / "__init__.py").touch()
    for text, reason in (
        ("class DogFlat(:", "SyntaxError"),
        ("", "AttributeError"),
        ("DogFlat = dict", "AttributeError"),
    ):
        (here / "dog" / "flat.py").write_text(text)
        with pytest.raises(ValueError, match=f"made of dog does not work \\({reason}.*nothing is written"):
            require_task(here / "dog")
        for name in ("dog", "dog.flat"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()


def start(here):
    """Start the command and return its process once it has a temporary folder."""
    words = [sys.executable, "-m", "rsl_rl", "adopt", "dog.urdf", "--no-pictures"]
    process = subprocess.Popen(words, cwd=here, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 300
    while not (here / ".dog.part" / ".lock").exists():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    return process


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_command_that_is_stopped_leaves_nothing(here, number, code):
    (here / "dog.urdf").write_text(quadruped_urdf())
    process = start(here)
    process.send_signal(number)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == code and errors.count("\n") == 1 and "nothing is written" in errors
    assert os.listdir(here) == ["dog.urdf"]


class LockWithSignal:
    """The lock of a folder, with a signal that comes before the command knows that it holds the lock."""

    def __init__(self, folder):
        self.lock = run_lock(folder)

    def __enter__(self):
        self.lock.__enter__()
        signal.raise_signal(signal.SIGTERM)

    def __exit__(self, *failure):
        return self.lock.__exit__(*failure)


def test_signal_while_the_lock_is_taken_leaves_nothing(here, rsl_rl_here, monkeypatch, capsys):
    (here / "dog.urdf").write_text(quadruped_urdf())
    monkeypatch.setattr(run_folder, "run_lock", LockWithSignal)
    assert rsl_rl_here("adopt", "dog.urdf", "--no-pictures") == TERMINATED
    assert "nothing is written" in capsys.readouterr().err
    assert os.listdir(here) == ["dog.urdf"]


def test_folder_of_a_killed_command_is_removed_by_the_next_one(here):
    (here / "dog.urdf").write_text(quadruped_urdf())
    process = start(here)
    process.kill()
    process.communicate()
    (here / ".dog.part" / "dog").mkdir()
    former = here / ".dog.k3_x9abq"  # of an earlier version
    (former / "dog").mkdir(parents=True)
    os.utime(former, (time.time() - 100_000,) * 2)
    assert adopt("dog.urdf") == 0
    assert sorted(os.listdir(here)) == ["dog", "dog.urdf"]


def test_folders_that_killed_commands_of_earlier_versions_left_are_removed(here):
    old = time.time() - 100_000
    for name, content in ((".dog.k3_x9abq", "dog"), (".dog.mine", "dog"), (".dog.abcdefgh", "cat")):
        (here / name / content).mkdir(parents=True)
        os.utime(here / name, (old, old))
    (here / ".dog.of_today").mkdir()
    (here / ".dog.to_there").symlink_to(here / ".dog.mine")
    command.remove_former_leftovers(here / "dog")
    assert sorted(os.listdir(here)) == [".dog.abcdefgh", ".dog.mine", ".dog.of_today", ".dog.to_there"]


def test_folder_of_a_running_command_is_left_alone(here, capsys):
    (here / "dog.urdf").write_text(quadruped_urdf())
    with run_lock(here / ".dog.part"):
        (here / ".dog.part" / "dog").mkdir()
        assert adopt("dog.urdf") == 2
        assert (here / ".dog.part" / "dog").is_dir()
    assert "another process prepares dog;" in capsys.readouterr().err


def test_command_ends_at_its_time_limit(here, capsys, monkeypatch):
    (here / "dog.urdf").write_text(quadruped_urdf())
    monkeypatch.setattr(command, "TIME_LIMIT", 0.1)
    assert adopt("dog.urdf") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "not prepared after 0.1 s, which is the limit" in error
    assert os.listdir(here) == ["dog.urdf"]


def test_model_that_needs_too_much_memory_is_refused(here, capsys):
    ground = '<hfield name="ground" nrow="46000" ncol="46000" size="1 1 1 1"/>'
    (here / "defaults.xml").write_text(BIPED_DEFAULTS)
    (here / "walker.xml").write_text(biped_mjcf().replace("<worldbody>", f"<asset>{ground}</asset><worldbody>"))
    assert adopt("walker.xml") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "may need more memory than it may have" in error
    assert sorted(os.listdir(here)) == ["defaults.xml", "walker.xml"]


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [
        ("kill -SEGV $$", 2, "dog.urdf cannot be prepared: the process was killed by SIGSEGV"),
        ("echo no idea >&2; exit 1", 1, "no idea"),
        ('ulimit -f 4; exec "$PYTHON" "$@"', 2, "File too large"),
    ],
)
def test_failure_of_the_process_leaves_one_line_and_nothing_else(here, capfd, monkeypatch, script, code, reason):
    folder = here / "bin"
    folder.mkdir()
    (folder / "python").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "python").chmod(0o755)
    (here / "dog.urdf").write_text(quadruped_urdf())
    monkeypatch.setenv("PYTHON", sys.executable)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    assert adopt("dog.urdf") == code
    error = capfd.readouterr().err
    assert error.count("\n") == 1 and reason in error
    assert sorted(os.listdir(here)) == ["bin", "dog.urdf"]


@pytest.mark.slow
def test_commands_of_the_page_run_as_written(here, root):
    """docs/own-robot.md, from the model file to the film, with the pictures of the report, and docs/tracking.md."""
    small = {
        "train": ["--num_envs", "8", "--max_iterations", "1", "--log_root", "logs"],
        "evaluate": ["--num_envs", "4", "--seconds", "0.1", "--log_root", "logs"],
        "play": ["--num_envs", "1", "--seconds", "0.1", "--no_video", "--log_root", "logs"],
    }
    lines = [line for page in ("own-robot", "tracking") for line in commands(root / "docs" / f"{page}.md")]
    written = [line.split() for line in lines if line.startswith("rsl-rl ") and "my_dog" in line]
    assert [words[1] for words in written] == ["adopt", *("train", "evaluate", "play") * 2]
    shutil.copy(root / "rsl_rl" / "robots" / "go2" / "go2.urdf", here / "my_dog.urdf")
    for _, name, *words in written:
        assert main([name, *words, *small.get(name, [])]) == 0
        importlib.invalidate_caches()
    report = (here / "my_dog" / "report.html").read_text()
    pictures = re.findall(r'src="data:image/png;base64,[^"]{1000,}" alt="(\w+)"', report)
    assert pictures == ["standing", "source", "settling", "joints", "ranges", "symmetry"]
    assert not list((here / "my_dog").glob("*.png"))
