"""Numbers and films of a policy while it trains."""

import json
import math
import shutil
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from configs import EXPERIMENTS
from configs.go2_flat import Go2Flat
from configs.toy import Toy
from rsl_rl.config.experiment import ProgressConfig
from rsl_rl.evaluation import endurance
from rsl_rl.evaluation.callbacks import (
    EvaluationCallback,
    VideoCallback,
    build_evaluation_env,
    build_tests,
    build_video_env,
    score,
)
from rsl_rl.evaluation.conditions import for_evaluation
from rsl_rl.evaluation.endurance import for_small_commands, measure_small_commands
from rsl_rl.evaluation.evaluate import evaluate
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.runners.listeners import BestCheckpoint
from rsl_rl.runners.loading import load_policy
from rsl_rl.utils.checkpoints import read_checkpoint
from rsl_rl.utils.config_io import from_dict, to_dict
from rsl_rl.viz import video
from rsl_rl.viz.video import VideoError
from tests.kill_and_resume import same

CLOCKS = ("collect_s", "learn_s", "steps_per_s")
SHORT = ProgressConfig(
    video_interval=2,
    video_seconds=0.2,
    video_robots=2,
    evaluate_interval=2,
    evaluate_robots=8,
    evaluate_seconds=0.5,
)


class Steady:
    """A policy that holds every joint at a distance from its default."""

    def __init__(self, action):
        self.action = action

    def __call__(self, obs):
        return torch.full((len(obs["policy"]), 12), self.action)

    def reset(self, dones=None):
        pass


class Watched:
    """A training that is looked at, as scripts/train.py sets it up."""

    def __init__(self, folder, task="go2_flat", progress=SHORT, last=5, checkpoint=None, seed=3):
        cfg = EXPERIMENTS.load(task)()
        runner_cfg = replace(cfg.runner, num_steps_per_env=12, save_interval=2, logger="none")
        # an annealed setting depends on the last iteration, which a training that is cut here has not
        cfg = replace(cfg, algorithm=replace(cfg.algorithm, final_desired_kl=None, final_entropy_coef=None))
        cfg = replace(cfg, env=replace(cfg.env, num_envs=16, episode_length=0.3), runner=runner_cfg)
        torch.manual_seed(seed)
        self.runner = runner = OnPolicyRunner(cfg.env.build(seed=seed), cfg, folder)
        self.folder, self.clips = folder, []
        if checkpoint is not None:
            runner.load(folder / checkpoint)
        if progress.evaluate_interval:
            tests = build_tests(cfg.env, progress, "cpu", 7)
            best = BestCheckpoint(folder, runner.current_learning_iteration, runner.save, runner.print_line)
            runner.after_update.append(
                EvaluationCallback(tests, progress, last, runner.get_inference_policy, [best.save_if_better])
            )
        if progress.video_interval:
            filmed = build_video_env(cfg.env, progress, "cpu", 7)
            self.clips = VideoCallback(
                filmed, progress, last, runner.get_inference_policy, folder / "videos", runner.print_line
            )
            runner.after_update.append(self.clips)

    def learn(self, iterations):
        fresh = self.runner.current_learning_iteration == 0
        if fresh:
            torch.manual_seed(6)
        self.runner.learn(iterations, init_at_random_ep_len=fresh)
        return self

    @property
    def records(self):
        lines = (self.folder / "metrics.jsonl").read_text().splitlines()
        return [{name: value for name, value in json.loads(line).items() if name not in CLOCKS} for line in lines]


def without_evaluation(records):
    return [{k: v for k, v in record.items() if not k.startswith("evaluation/")} for record in records]


@pytest.fixture
def drawn(monkeypatch):
    """Stand in for the renderer; hold the films that it would have made."""
    clips = {}

    def write(path, clip, renderer):
        clips[path.name] = clip
        path.write_bytes(b"film")
        return path

    monkeypatch.setattr(video, "write_video", write)
    return clips


@pytest.mark.parametrize("task", ["go2_flat", "go2_flat_blind"])
def test_a_training_is_the_same_with_and_without_an_audience(tmp_path, drawn, task):
    alone = Watched(tmp_path / "alone", task, ProgressConfig()).learn(5)
    state, looked_at = torch.get_rng_state(), Watched(tmp_path / "watched", task).learn(5)
    assert torch.equal(state, torch.get_rng_state())
    looked_at.clips.finish(lambda: False)
    a, b = (read_checkpoint(one.folder / "model_5.pt") for one in (alone, looked_at))
    for part in ("model_state_dict", "optimizer_state_dict", "learning_rate", "rng", "env", "memory", "episodes"):
        assert same(a[part], b[part]), part
    assert alone.records == without_evaluation(looked_at.records) != looked_at.records
    assert sorted(drawn) == ["model_2.mp4", "model_4.mp4", "model_5.mp4"]


def test_a_killed_training_that_goes_on_is_judged_as_if_never_stopped(tmp_path, drawn):
    whole = Watched(tmp_path / "whole", "go2_flat_blind").learn(5)
    Watched(tmp_path / "cut", "go2_flat_blind").learn(3)
    (tmp_path / "cut" / "model_3.pt").unlink()  # killed before it was saved
    resumed = Watched(tmp_path / "cut", "go2_flat_blind", checkpoint="model_2.pt", seed=99).learn(3)
    assert whole.records == resumed.records
    judged = [record["iteration"] for record in resumed.records if "evaluation/score" in record]
    assert judged == [2, 4, 5]
    assert {"evaluation/fall_rate", "evaluation/lin_vel_error", "evaluation/yaw_rate_error"} <= set(whole.records[-1])
    a, b = (read_checkpoint(one.folder / "model_best.pt") for one in (whole, resumed))
    assert a["iter"] == b["iter"] and a["infos"] == b["infos"] and same(a["model_state_dict"], b["model_state_dict"])
    scores = {
        record["iteration"]: record["evaluation/score"] for record in whole.records if record["iteration"] in judged
    }
    assert a["infos"]["evaluation"]["score"] == scores[a["iter"]] == min(scores.values())


def test_each_evaluation_meets_the_same_robots_and_commands():
    tests = build_tests(Go2Flat().env, SHORT, "cpu", 7)
    policies, offered = iter([Steady(0.1), Steady(-0.4), Steady(0.1)]), []
    judge = EvaluationCallback(tests, SHORT, 5, lambda: next(policies), [lambda *offer: offered.append(offer)])
    results = [judge(iteration) for iteration in range(1, 6)]
    assert results[0] == results[2] == {} and results[1] == results[4] != results[3]
    fresh = for_evaluation(Go2Flat().env, 8, 0.5).build(seed=7)
    expected = evaluate(fresh, Steady(0.1), 0.5)
    assert results[1] == {
        f"evaluation/{k}": v for k, v in {**expected, "score": score(expected, Go2Flat().env.gate)}.items()
    }
    assert [iteration for iteration, _ in offered] == [2, 4, 5]
    assert offered[0][1]["score"] == results[1]["evaluation/score"]


@pytest.mark.parametrize(
    ("until_gate", "limit", "measured"),
    [
        (0, 1e-6, {"lin_vel_error", "dead_zone", "failures_per_hour"}),
        (1, 1e-6, {"lin_vel_error"}),
        (1, 1e6, {"lin_vel_error", "dead_zone"}),  # a policy that stands follows no small command
    ],
)
def test_evaluation_before_the_gate_ends_with_the_test_that_misses_it(monkeypatch, until_gate, limit, measured):
    for time_ in ("_WALKING", "_SETTLING", "_MEASURED"):
        monkeypatch.setattr(endurance, time_, 0.1)
    gate = {"lin_vel_error": limit, "dead_zone": 0.05, "failures_per_hour": 0.1}
    task = replace(Go2Flat().env, gate=gate)
    cfg = replace(SHORT, small_commands=True, joystick_hours=0.001, until_gate=until_gate)
    found = []
    judge = EvaluationCallback(
        build_tests(task, cfg, "cpu", 7), cfg, 2, lambda: Steady(0.0), [lambda _, metrics: found.append(metrics)]
    )
    judge(2)
    assert set(gate).intersection(found[0]) == measured and found[0]["score"] > 1
    alone = measure_small_commands(for_small_commands(task).build(seed=7), Steady(0.0)).metrics
    assert found[0].items() >= alone.items() or "dead_zone" not in measured


def test_the_score_is_the_worst_share_of_a_limit():
    gate = {"fall_rate": 0.01, "lin_vel_error": 0.2}
    assert score({"fall_rate": 0.005, "lin_vel_error": 0.15, "foot_slip": 9.0}, gate) == 0.15 / 0.2
    assert score({"fall_rate": 0.03, "lin_vel_error": 0.15}, gate) == 0.03 / 0.01
    assert score({"fall_rate": 0.0}, {"fall_rate": 0.0}) == 0.0
    assert score({"fall_rate": 0.5}, {"fall_rate": 0.0}) == 1.5
    assert score({"fall_rate": 0.005, "lin_vel_error": 0.1}, {**gate, "failures_per_hour": 0.1}) == 0.5  # not measured
    assert score({"fall_rate": 0.0, "lin_vel_error": math.nan}, gate) == math.inf


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"video_interval": -1}, "progress.video_interval=-1: give a whole number from 0"),
        ({"evaluate_interval": -1}, "progress.evaluate_interval=-1: give a whole number from 0"),
        ({"video_robots": 0}, "progress.video_robots=0: give a whole number from 1 to 100"),
        ({"evaluate_robots": 0}, "progress.evaluate_robots=0: give a whole number from 1"),
        ({"video_seconds": 0}, "progress.video_seconds=0.0 must be positive"),
        ({"evaluate_seconds": -2}, "progress.evaluate_seconds=-2.0 must be positive"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, words):
    with pytest.raises(ValueError) as caught:
        ProgressConfig(**settings)
    assert words in str(caught.value)


def test_a_config_of_before_shows_nothing():
    old = to_dict(Go2Flat())
    assert old.pop("progress") and from_dict(Go2Flat, old).progress == ProgressConfig()


def test_a_task_that_cannot_be_looked_at_is_refused():
    for build, setting in ((build_evaluation_env, "evaluate_interval"), (build_video_env, "video_interval")):
        with pytest.raises(ValueError, match=rf"^progress.{setting}=2: ToyConfig is not the config of a legged robot"):
            build(Toy().env, SHORT, "cpu", 1)
    with pytest.raises(
        ValueError, match=r"^progress.evaluate_interval=2 needs limits in env.gate .* leave out evaluate_interval$"
    ):
        build_evaluation_env(replace(Go2Flat().env, gate={}), SHORT, "cpu", 1)
    too_short = replace(SHORT, evaluate_seconds=0.001)
    with pytest.raises(ValueError, match=r"^progress.evaluate_interval=2: seconds=0.001 is less than one control step"):
        build_evaluation_env(Go2Flat().env, too_short, "cpu", 1)


def test_evaluate_command_period_is_the_time_between_the_commands_of_an_evaluation():
    env = build_evaluation_env(Go2Flat().env, replace(SHORT, evaluate_command_period=0.1), "cpu", 1)  # five steps
    commands = []
    for _ in range(10):
        env.step(torch.zeros(8, 12))
        commands.append(env.state.requested_command.clone())
    changed = [not torch.equal(before, after) for before, after in zip(commands, commands[1:])]
    assert changed == [False, False, False, True, False, False, False, False, True]
    with pytest.raises(ValueError, match=r"resampling_time=0.001 is less than one control step"):
        build_evaluation_env(Go2Flat().env, replace(SHORT, evaluate_command_period=0.001), "cpu", 1)


def clips_in(folder, said=None, policy=None):
    env = build_video_env(Go2Flat().env, SHORT, "cpu", 7)
    print_line = said.append if said is not None else lambda text: None
    return VideoCallback(env, SHORT, 5, policy or (lambda: Steady(0.1)), folder, print_line)


def test_a_film_shows_the_policy_of_its_iteration_from_the_same_start(tmp_path, drawn):
    policies, said = iter([Steady(0.1), Steady(-0.4), Steady(0.1)]), []
    clips = clips_in(tmp_path / "videos", said, lambda: next(policies))
    for iteration in range(1, 6):
        assert clips(iteration) == {}
    clips.finish(lambda: False)
    assert list(drawn) == ["model_2.mp4", "model_4.mp4", "model_5.mp4"]
    first, other, again = drawn.values()
    assert first.poses.shape == (5, 2, 19) and first.captions[0].startswith("iteration 2    commanded")
    assert (first.poses == again.poses).all() and not (first.poses == other.poses).all()
    assert [line.split()[1] for line in said if line.startswith("video")] == [
        str(tmp_path / "videos" / name) for name in drawn
    ]


def test_what_cannot_be_filmed_is_one_line_and_the_last_attempt(tmp_path, monkeypatch):
    tried, said = [], []

    def write(path, clip, renderer):
        tried.append(path.name)
        raise VideoError("no video: no driver; install one")

    monkeypatch.setattr(video, "write_video", write)
    clips = clips_in(tmp_path / "videos", said)
    for iteration in range(1, 6):
        clips(iteration)
        assert clips._videos.wait(10)
    clips.finish(lambda: False)
    assert tried == ["model_2.mp4"]
    assert said == ["warning: no video: no driver; install one; training continues without videos"]


def test_a_disk_that_is_full_costs_one_film(tmp_path, monkeypatch):
    said = []

    def write(path, clip, renderer):
        if path.name == "model_2.mp4":
            raise OSError("No space left on device")

    monkeypatch.setattr(video, "write_video", write)
    clips = clips_in(tmp_path / "videos", said)
    clips(2)
    clips(4)
    assert clips._videos.wait(10)
    clips.finish(lambda: False)
    assert said[0] == "warning: no video model_2.mp4 (No space left on device); the next one is tried"
    assert said[1].startswith("video: ") and len(said) == 2


RENDERER = """#!/bin/sh
nice > "{folder}/niceness"
echo half > "$4"
sleep 300 &
echo "$$ $!" > "{folder}/processes"
wait
"""


@pytest.fixture
def slow_renderer(tmp_path, monkeypatch):
    """A renderer that writes half a film, starts a process of its own and takes its time."""
    script = tmp_path / "renderer"
    script.write_text(RENDERER.format(folder=tmp_path))
    script.chmod(0o755)
    monkeypatch.setattr(video, "sys", SimpleNamespace(executable=str(script), platform=sys.platform))
    return tmp_path


def runs(process):
    """Whether a process is there and has not ended; init may not have collected it yet."""
    try:
        return subprocess.run(
            ["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=True
        ).stdout.strip()[:1] not in ("", "Z")
    except subprocess.CalledProcessError:
        return False


def until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("way", ["given up", "interrupted while they are waited for"])
def test_films_that_are_given_up_leave_no_half_and_no_process(slow_renderer, way):
    said, folder = [], slow_renderer / "videos"
    clips = clips_in(folder, said)
    clips(2)
    clips(4)
    note = slow_renderer / "processes"
    until(lambda: note.exists() and len(note.read_text().split()) == 2)
    processes = [int(word) for word in note.read_text().split()]
    assert all(map(runs, processes)) and (slow_renderer / "niceness").read_text().strip() == "19"
    (inside,) = folder.iterdir()
    assert (inside / "model_2.mp4").read_text() == "half\n"
    clips.cancel() if way == "given up" else clips.finish(lambda: True)
    assert list(folder.iterdir()) == []
    until(lambda: not any(map(runs, processes)))
    if way != "given up":
        assert said == ["waiting for 2 videos; Ctrl-C skips them", "2 videos are skipped"]


def test_what_a_killed_process_left_is_cleared_away(tmp_path):
    left = tmp_path / f".model_2.abc{video.PART_SUFFIX}"
    left.mkdir()
    (left / "model_2.mp4").touch()
    (tmp_path / "model_1.mp4").touch()
    clips_in(tmp_path).cancel()
    assert [path.name for path in tmp_path.iterdir()] == ["model_1.mp4"]


@pytest.fixture
def experiment(root):
    """The folder of an experiment of this test alone."""
    folder = root / "logs" / f"progress-{uuid.uuid4().hex[:8]}"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


SMALL = ("--num_envs", "16", "--runner.num_steps_per_env", "8", "--logger", "none")


def test_the_best_is_judged_and_played_by_its_name(run_script, experiment):
    arguments = ("--task", "go2_flat", "--experiment_name", experiment.name)
    short = ("--evaluate_interval", "1", "--progress.evaluate_robots", "4", "--progress.evaluate_seconds", "0.2")
    done = run_script("scripts/train.py", *arguments, *SMALL, *short, "--max_iterations", "2")
    assert done.returncode == 0, done.stderr
    (run,) = experiment.iterdir()
    best = read_checkpoint(run / "model_best.pt")
    assert f"best policy: iteration {best['iter']}, score" in done.stdout
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lowest, highest = sorted(record["evaluation/score"] for record in records)
    assert lowest < highest  # each is of its own iteration's policy
    assert best["infos"]["evaluation"]["score"] == lowest == records[best["iter"] - 1]["evaluation/score"]

    arguments += ("--num_envs", "2", "--seconds", "0.2")
    done = run_script("scripts/evaluate.py", *arguments, "--checkpoint", "best")
    assert done.returncode == 0 and (run / "evaluation_best.html").exists(), done.stderr
    judged = json.loads(done.stdout.splitlines()[-1])
    assert judged["checkpoint"] == str(run / "model_best.pt")
    assert judged["env_steps"] == best["counters"]["env_steps"]
    loaded = load_policy(Go2Flat(), for_evaluation(Go2Flat().env, 2, 0.2).build(), run, "best")
    assert loaded.checkpoint == run / "model_best.pt"


def test_a_signal_ends_a_training_at_once_though_films_are_in_the_making(programs, experiment):
    command = ["scripts/train.py", "--task", "go2_flat", "--experiment_name", experiment.name, *SMALL]
    command += ["--max_iterations", "100000", "--video_interval", "1", "--progress.video_seconds", "4"]
    process = programs.start(*command)
    until(lambda: list(experiment.glob("*/videos/.model_*/recording.npz")) or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    said, errors = process.communicate(timeout=60)
    assert process.returncode == 143 and errors == "", errors
    assert "interrupted by SIGTERM after iteration" in said and "waiting for" not in said
    (folder,) = experiment.glob("*/videos")
    assert not list(folder.glob(".*"))
    clips = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(folder) not in clips
