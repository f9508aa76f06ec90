"""A robot breaks in a real training; its post-mortem is read back, repeated and shown."""

import json
import os
import pickle
import runpy
import shutil
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from configs.go2_flat import Go2Flat
from configs.toy import Toy
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.mdp import EventTerm
from rsl_rl.evaluation.fault_replay import (
    SECTIONS,
    StepSummary,
    describe_replay,
    find_fault_dump,
    load_fault_dump,
    replay_fault,
    step_summaries,
    write_fault_report,
)
from rsl_rl.runners import OnPolicyRunner

ENGINE, STATE, REWARD = 3, 5, 1  # robots that break, each for a cause of its own
_not_a_number = torch.zeros(8, dtype=torch.bool)


def sometimes_nan(state, cfg):
    """A reward term with a bug."""
    return state.base_height.masked_fill(_not_a_number, torch.nan)


def break_robots(env):
    """Have robots of an environment break in certain steps from now on."""
    step, count = env.step, iter(range(1, 1000))
    velocities = {14: (ENGINE, 1e12), 16: (STATE, 200.0)}

    def broken_step(actions):
        number = next(count)
        if number in velocities:
            robot, speed = velocities[number]
            env.sim.set_root_velocity(
                torch.arange(8) == robot, torch.tensor([speed, 0, 0.5 * speed]).repeat(8, 1), torch.zeros(8, 3)
            )
        _not_a_number[REWARD] = number == 18
        return step(actions)

    env.step = broken_step


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A training in which three robots broke: its config and its folder."""
    cfg = Go2Flat()
    cfg = replace(
        cfg,
        env=replace(
            cfg.env,
            num_envs=8,
            rewards=cfg.env.rewards.with_weights({f"{__name__}:sometimes_nan": 1.0}),
            randomization=cfg.env.randomization.with_terms({"push": EventTerm("interval", 0.0)}),
        ),
        policy=replace(cfg.policy, actor_hidden_dims=(16,), critic_hidden_dims=(16,)),
        algorithm=PPOConfig(num_learning_epochs=1, num_mini_batches=1),
        runner=replace(cfg.runner, num_steps_per_env=12, logger="none"),
    )
    run = tmp_path_factory.mktemp("logs") / "go2_flat" / "run"
    torch.manual_seed(0)
    runner = OnPolicyRunner(cfg.env.build(), cfg, run)
    break_robots(runner.env)
    runner.learn(2)
    return SimpleNamespace(cfg=cfg, run=run)


def repeated(trained, name):
    dump = load_fault_dump(find_fault_dump(trained.run, name), trained.cfg.env)
    return dump, replay_fault(dump, trained.cfg.env)


def test_physics_repeats_how_the_engine_broke(trained):
    dump, replay = repeated(trained, "engine_2")
    assert (dump.cause, dump.term, dump.environment, dump.iteration) == ("engine", "", ENGINE, 2)
    assert replay.diverged.tolist() == replay.broken.tolist() == [False] * 7 + [True]
    # All that something else changed is the velocity before the last step; bit for bit, the rest is as recorded.
    assert torch.equal(replay.end_states[:6], dump.states[1:7])
    assert (replay.end_states[6] != dump.states[7]).sum() <= 6
    assert replay.differences.tolist()[:6] == [0.0] * 6 and replay.disturbed_steps == [6]
    assert replay.lost[:7].sum() == 0 and replay.lost[7].tolist() == [False, True, True, True, True]
    line = describe_replay(dump, replay)
    assert step_summaries(dump, replay)[-1] == StepSummary(0.0)  # what the engine starts anew with is not told
    assert (
        line.startswith("the physics breaks as in training; ")
        and "is 1e+12: 0.020 s before the end, the state was changed" in line
    )


def test_physics_repeats_how_a_robot_became_too_fast(trained):
    dump, replay = repeated(trained, "state_2")
    assert (dump.environment, dump.term) == (STATE, "trunk velocity x")
    assert replay.broken.tolist() == [False] * 7 + [True] and not replay.diverged.any()
    assert torch.equal(replay.end_states[:6], dump.states[1:7]) and not replay.lost.any()
    assert describe_replay(dump, replay).startswith("the physics breaks as in training; ")
    told = step_summaries(dump, replay)
    assert [round(moment.time_left, 6) for moment in told] == [0.16, 0.14, 0.12, 0.1, 0.08, 0.06, 0.04, 0.02, 0.0]
    speeds = [moment.speed or 0.0 for moment in told]
    assert speeds[7] == pytest.approx(200 * 1.25**0.5) and speeds[8] > 50 and max(speeds[:7]) < 3
    assert [moment.broke for moment in told] == [""] * 7 + ["too fast", ""]
    assert told[0].height == pytest.approx(float(dump.states[0, 2])) and told[8].target_error is None
    assert told[0].target_error == pytest.approx(float((dump.targets[0] - dump.states[0, 7:19]).abs().max()))
    for state, moment in zip(dump.states, told):
        speeds = state[25:37].abs()
        assert moment.joint == replay.joint_names[int(speeds.argmax())]
        assert moment.joint_speed == pytest.approx(float(speeds.max()))


def test_a_reward_that_is_no_number_is_no_matter_of_physics(trained):
    dump, replay = repeated(trained, "reward_term_2")
    term = f"{__name__}:sometimes_nan"
    assert (dump.environment, dump.term) == (REWARD, term)
    assert not replay.broken.any() and torch.equal(replay.end_states[:-1], dump.states[1:])
    assert describe_replay(dump, replay) == (
        f"the physics does not break: the cause is the term {term}; the largest difference from a recorded state is 0"
    )
    assert {name for name, value in dump.values.items() if value != value} == {term}


def test_other_physics_are_noticed(trained):
    cfg = trained.cfg.env
    dump = load_fault_dump(find_fault_dump(trained.run, "reward_term_2"), cfg)
    replay = replay_fault(dump, replace(cfg, sim=replace(cfg.sim, dt=0.004)))
    assert "no state agrees: the physics of the run differed" in describe_replay(dump, replay)
    dump = dump._replace(cause="engine", term="")
    assert describe_replay(dump, replay_fault(dump, cfg)).startswith(
        "the physics does not break here, but did in training: "
    )
    dump = load_fault_dump(find_fault_dump(trained.run, "state_2"), cfg)._replace(cause="reward_term", term="x")
    assert describe_replay(dump, replay_fault(dump, cfg)).startswith(
        "the physics breaks here, but did not in training, where"
    )


def test_the_parameters_are_those_of_the_robot(trained):
    """Without them, nothing is repeated; the others were not its own."""
    dump = load_fault_dump(find_fault_dump(trained.run, "engine_2"), trained.cfg.env)
    for name in ("friction", "payload", "stiffness"):
        others = {**dump.parameters, name: dump.parameters[name] + 0.3}
        assert replay_fault(dump._replace(parameters=others), trained.cfg.env).differences[:6].max() > 1e-6, name


def test_one_step_is_enough(trained):
    dump = load_fault_dump(find_fault_dump(trained.run, "engine_2"), trained.cfg.env)
    dump = dump._replace(states=dump.states[-1:], targets=dump.targets[-1:])
    replay = replay_fault(dump, trained.cfg.env)
    assert describe_replay(dump, replay) == "the physics breaks as in training; there is only one step"
    assert len(step_summaries(dump, replay)) == 2


def test_a_robot_that_flies_away_stays_in_the_film(trained, tmp_path, monkeypatch):
    dump, replay = repeated(trained, "state_2")
    filmed = []
    monkeypatch.setattr("rsl_rl.evaluation.fault_replay.write_video", lambda path, clip: filmed.append(clip))
    list(write_fault_report(dump, replay, tmp_path / "case.pt", True))
    poses = filmed[0].poses[:, 0]
    assert poses.shape == (33, 19) and abs(poses[-1, 0] - poses[0, 0]) == pytest.approx(0.5)
    assert poses[:29, :3] == pytest.approx(replay.pose[:, :4].reshape(-1, 19)[:29, :3].numpy(), abs=1e-6)
    assert filmed[0].captions[-1].startswith("0.000 s before the end")

    sim = replace(trained.cfg.env.sim, dt=0.0016, decimation=10)  # every third of 81 poses, up to the last one
    list(write_fault_report(dump, replay_fault(dump, replace(trained.cfg.env, sim=sim)), tmp_path / "case.pt", True))
    assert len(filmed[1].poses) == 27 and filmed[1].captions[-1].startswith("0.000 s before the end")
    assert filmed[1].fps == pytest.approx(1 / (20 * 3 * 0.0016))


def test_poses_that_are_not_finite_are_not_filmed(trained, tmp_path, monkeypatch):
    dump, _ = repeated(trained, "engine_2")
    filmed = []
    monkeypatch.setattr("rsl_rl.evaluation.fault_replay.write_video", lambda path, clip: filmed.append(clip))
    states = dump.states.clone()
    states[2, 9] = states[2, 29] = torch.nan  # a joint's angle, and the velocity of the fifth joint
    broken = dump._replace(states=states)
    third = step_summaries(broken, replay_fault(broken, trained.cfg.env))[2]
    assert third.joint == "FR_thigh_joint" and str(third.joint_speed) == str(third.target_error) == "nan"
    lines = list(write_fault_report(broken, replay_fault(broken, trained.cfg.env), tmp_path / "case.pt", True))
    (clip,) = filmed
    poses, captions, fps = clip.poses, clip.captions, clip.fps
    # 8 steps of 4 frames: none of the third, and of the last one only the first
    assert poses.shape == (7 * 4 - 3, 1, 19) and len(captions) == len(poses) and fps == pytest.approx(10)
    assert torch.isfinite(torch.from_numpy(poses)).all() and captions[0].startswith("0.160 s before the end")
    assert len(lines) == 2 and (tmp_path / "case.png").stat().st_size > 10_000

    broken = dump._replace(states=torch.full_like(states, torch.inf))
    lines = list(write_fault_report(broken, replay_fault(broken, trained.cfg.env), tmp_path / "other.pt", True))
    assert lines[-1] == "no video: no pose of the robot is finite" and len(filmed) == 1
    assert (tmp_path / "other.png").exists()


@pytest.mark.parametrize(
    "name", ["engine_2", "engine_2.pt", "engine_2.json", "postmortem/engine_2.json", "{run}/postmortem/engine_2.json"]
)
def test_a_post_mortem_is_found_by_any_of_its_names(trained, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_fault_dump(trained.run, name.format(run=trained.run)) == trained.run / "postmortem" / "engine_2.pt"


@pytest.mark.parametrize("name", ["engin_2", "", "/", "postmortem", "engine_2.txt", "../model_3"])
def test_a_wrong_name_lists_what_is_there(trained, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"has engine_2, reward_term_2, state_2\.") as error:
        find_fault_dump(trained.run, name)
    assert ("Did you mean 'engine_2'?" in str(error.value)) == name.startswith("engin")
    with pytest.raises(ValueError, match="has none: no robot broke there"):
        find_fault_dump(tmp_path, "engine_2")


def test_the_file_of_another_run_wants_its_own_settings(trained, tmp_path):
    other = shutil.copytree(trained.run, tmp_path / "other")
    with pytest.raises(ValueError, match=f"belongs to another run than .*; add --load_run {other}$"):
        find_fault_dump(trained.run, str(other / "postmortem" / "engine_2.pt"))
    copy = shutil.copy(other / "postmortem" / "engine_2.pt", tmp_path / "copy.pt")
    assert find_fault_dump(trained.run, str(copy)) == copy


class Executes:
    """A pickle that makes a folder when it is read the usual way."""

    def __reduce__(self):
        return os.mkdir, ("executed",)


def change(path, **changes):
    """Rewrite a post-mortem with other fields, of physics too; None takes one out."""
    content = torch.load(path, weights_only=True)
    for name, value in changes.items():
        place = content if name in content else content["env"] if name in content["env"] else content["env"]["physics"]
        place[name] = value(place[name]) if callable(value) else value
        if place[name] is None and name != "env":
            del place[name]
    torch.save(content, path)


def flip(path):
    content = bytearray(path.read_bytes())
    content[content.index(b"environment")] ^= 1  # a name, which torch alone would believe
    path.write_bytes(content)


DAMAGES = {  # case: (what becomes of the file, words of the line)
    "empty": (lambda path: path.write_bytes(b""), "is damaged or not a fault dump"),
    "half": (lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]), "is damaged or not a fault"),
    "a flipped bit": (flip, "is damaged or not a fault dump"),
    "text": (lambda path: path.write_text("{}"), "is damaged or not a fault dump"),
    "a program": (lambda path: path.write_bytes(pickle.dumps(Executes())), "is damaged or not a fault dump"),
    "a program in torch's format": (lambda path: torch.save(Executes(), path), "is damaged or not a fault dump"),
    "a list": (lambda path: torch.save([1], path), "is not a fault dump: it lacks some of format, cause, term"),
    "a checkpoint": (lambda path: torch.save({"format": 1, "iter": 1}, path), "is not a fault dump: it lacks some of"),
    "no cause": (lambda path: change(path, cause=None), "is not a fault dump: it lacks some of"),
    "a cause that is no text": (lambda path: change(path, cause=3), "is not a fault dump: it lacks some of"),
    "a later format": (lambda path: change(path, format=2), "has format 2, and this version reads 1; update"),
    "no physics": (lambda path: change(path, env=None), "has no physics to replay: the task has no physics"),
    "an env that is no dict": (lambda path: change(path, env=[1]), "is not a fault dump: it lacks some of"),
    "another robot": (lambda path: change(path, robot="go3"), "is of the robot 'go3' and the task has 'go2'"),
    "physics gone": (lambda path: change(path, physics=None), "its physics are not states, targets and parameters"),
    "physics in words": (lambda path: change(path, physics="x"), "its physics are not states, targets and"),
    "no targets": (lambda path: change(path, targets=None), "its physics are not states, targets and parameters"),
    "one state": (lambda path: change(path, states=lambda x: x[0]), "its physics are not states, targets and"),
    "fewer states": (lambda path: change(path, states=lambda x: x[1:]), "its physics are not states, targets and"),
    "whole numbers": (lambda path: change(path, states=lambda x: x.long()), "its physics are not states, targets"),
    "no parameters": (lambda path: change(path, parameters=3), "its physics are not states, targets and parameters"),
    "parameters in words": (lambda path: change(path, parameters={"friction": "x"}), "its physics are not states"),
    "more state": (lambda path: change(path, states=lambda x: torch.cat((x, x), 1)), "states and targets of [110, 12]"),
    "fewer joints": (lambda path: change(path, targets=lambda x: x[:, 1:]), "has states and targets of [55, 11]"),
    "a parameter of tomorrow": (lambda path: change(path, parameters={"wind": torch.ones(3)}), "{'wind': [3]}"),
    "one gain": (lambda path: change(path, parameters={"stiffness": torch.ones(12)}), "{'stiffness': [12]}"),
    "gains of a leg": (
        lambda path: change(path, parameters={"stiffness": torch.ones(3), "damping": torch.ones(3)}), "'damping': [3]}",
    ),
    "a payload that lifts": (lambda path: change(path, parameters={"payload": torch.tensor(-9.0)}), "takes off more"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_or_foreign_file_is_refused(trained, damage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "case.pt"
    shutil.copy(trained.run / "postmortem" / "engine_2.pt", path)
    inflict, words = DAMAGES[damage]
    inflict(path)
    with pytest.raises(ValueError) as error:
        replay_fault(load_fault_dump(path, trained.cfg.env), trained.cfg.env)
    assert words in str(error.value) and "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == [path]


def test_a_task_without_physics_repeats_none(trained):
    with pytest.raises(ValueError, match="has no physics to replay: the task has no physics"):
        load_fault_dump(trained.run / "postmortem" / "engine_2.pt", Toy().env)


@pytest.fixture
def play(trained, root, monkeypatch, capsys):
    """Call scripts/play.py --task go2_flat in this process; return exit code, output and errors."""
    monkeypatch.setattr("rsl_rl.cli.command_line.default_log_root", lambda: trained.run.parent.parent)
    monkeypatch.setenv("COLUMNS", "160")

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["scripts/play.py", "--task", "go2_flat", *arguments])
        with pytest.raises(SystemExit) as stop:
            runpy.run_path(str(root / "scripts" / "play.py"), run_name="__main__")
        return stop.value.code, *capsys.readouterr()

    return call


def test_the_script_tells_what_a_reward_did(trained, play):
    code, output, _ = play("--fault_dump", "reward_term_2.json", "--no_video")
    lines = output.splitlines()
    assert code == 0 and lines[1].startswith(f"reward_term ({__name__}:sometimes_nan) in robot {REWARD}, iteration 2")
    assert sum("_joint" in line for line in lines) == 9 and any("trunk speed [m/s]" in line for line in lines)
    assert any(line.startswith("the physics does not break: the cause is the term ") for line in lines)
    values = {line.split()[1]: line.split()[3] for line in lines if line.startswith("│") and len(line.split()) == 5}
    dump = json.loads((trained.run / "postmortem" / "reward_term_2.json").read_text())
    assert set(values) == set(dump["env"]["rewards"]) and values[dump["term"]] == "nan"
    assert lines[-1] == f"plot: {trained.run / 'postmortem' / 'reward_term_2.png'}"
    assert not (trained.run / "exported").exists() and not list(trained.run.rglob("*.mp4"))


BAD_INPUT = {  # flags: words of the line
    "--fault_dump engin_2": "there is no fault dump 'engin_2'; ",
    "--fault_dump": "--fault_dump",
    "--fault_dump model_2.pt": "is not a fault dump: it lacks some of format, cause",
    "--fault_dump engine_2 --seconds 3 --num_envs 2": "leave out --num_envs, --seconds",
    "--fault_dump engine_2 --load_run yesterday": "there is no run yesterday",
    "--fault_dump engine_2 --sim_device gpu": "sim_device='gpu' is not a device",
}


@pytest.mark.parametrize("flags", BAD_INPUT)
def test_a_mistake_is_one_line(play, flags):
    code, output, errors = play(*flags.split())
    (line,) = errors.splitlines()
    assert code == 2 and output == "" and line.startswith("play.py: error: ") and BAD_INPUT[flags] in line


def test_the_script_shows_a_breakdown_in_a_process_of_its_own(trained, run_script, tmp_path):
    dump = tmp_path / "case.pt"
    shutil.copy(trained.run / "postmortem" / "engine_2.pt", dump)
    change(dump, states=lambda x: x[-2:], targets=lambda x: x[-2:])  # a short film
    done = run_script(
        "scripts/play.py", "--task", "go2_flat", "--load_run", str(trained.run), "--fault_dump", str(dump)
    )
    assert done.returncode == 0, done.stderr
    assert f"engine in robot {ENGINE}, iteration 2, step 1\n" in done.stdout
    assert "diverged" in done.stdout and "the physics breaks as in training" in done.stdout
    assert (tmp_path / "case.png").stat().st_size > 10_000 and not (trained.run / "exported").exists()
    assert (tmp_path / "case.mp4").exists() or "no video:" in done.stdout


def test_the_causes_that_are_no_matter_of_physics_are_known():
    from rsl_rl.tasks.faults import CAUSES

    assert set(SECTIONS) < set(CAUSES)
