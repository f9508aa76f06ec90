"""The scripts as a user runs them: real processes, real files, real mistakes."""

import json
import shutil
import uuid
from pathlib import Path

import pytest
import torch

from configs import EXPERIMENTS

TINY = (
    "--num_envs", "16", "--runner.num_steps_per_env", "8",
    "--policy.actor_hidden_dims", "16", "--policy.critic_hidden_dims", "16",
    "--save_interval", "2",
)  # fmt: skip


@pytest.fixture(scope="module")
def experiment():
    """The name of an experiment of this module alone; its runs are removed at the end."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    yield name
    for folder in (Path(__file__).parent.parent / "logs").glob(f"{name}*"):
        shutil.rmtree(folder, ignore_errors=True)


def folder_of(root: Path, experiment: str) -> Path:
    return root / "logs" / experiment


def test_help_of_all_flags_explains_every_setting(run_script):
    done = run_script("scripts/train.py", "--help", "all", "--task", "go2_flat")
    assert done.returncode == 0
    for words in (
        "--num_envs",
        "--algorithm.desired_kl",
        "--env.rewards.terms.track_lin_vel.weight",
        "[nats]",
        "--resume",
    ):
        assert words in done.stdout, words


@pytest.mark.parametrize("script", ["evaluate.py", "play.py"])
def test_the_other_scripts_help_too(run_script, script):
    done = run_script(f"scripts/{script}", "--help")
    assert done.returncode == 0 and "--load_run" in done.stdout and "--seconds" in done.stdout


def test_tasks_are_listed(run_script):
    lines = run_script("scripts/train.py", "--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == EXPERIMENTS.names()


def test_a_toy_is_trained_resumed_and_refused_when_done(run_script, root, experiment):
    arguments = ("scripts/train.py", "--task", "toy", "--experiment-name", experiment, *TINY)
    done = run_script(*arguments, "--max_iterations", "3", "--seed", "5", "--run_name", "a")
    assert done.returncode == 0, done.stderr
    (run,) = folder_of(root, experiment).iterdir()
    assert run.name.endswith("_a") and str(run) in done.stdout
    assert {"model_2.pt", "model_3.pt", "metrics.jsonl", "config.yaml", "git"} <= {p.name for p in run.iterdir()}
    assert list(run.glob("events.out.tfevents.*"))

    # Resuming takes the run's own settings: the flags for a small run are not given again.
    short = ("scripts/train.py", "--task", "toy", "--experiment_name", experiment, "--resume")
    done = run_script(*short, "--max_iterations", "5")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in folder_of(root, experiment).iterdir()] == [run.name]
    lines = [json.loads(line)["iteration"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert lines == [1, 2, 3, 4, 5]
    assert torch.load(run / "model_5.pt", weights_only=True)["iter"] == 5
    assert "new episodes of" not in done.stdout

    done = run_script(*short)
    assert done.returncode == 2 and "has reached max_iterations=5" in done.stderr  # what was said last holds
    done = run_script(*short, "--checkpoint", "77", "--max_iterations", "9")
    assert done.returncode == 2 and "no checkpoint of iteration 77" in done.stderr
    done = run_script(*short, "--max_iterations", "9", "--policy.actor_hidden_dims", "8")
    assert done.returncode == 2 and "does not fit the policy" in done.stderr and len(done.stderr.splitlines()) == 1
    done = run_script(*short, "--max_iterations", "9", "--num_envs", "4")
    assert done.returncode == 2 and "the state has num_envs=16" in done.stderr
    done = run_script(*short, "--max_iterations", "6", "--num_envs", "4", "--fresh_episodes")
    assert done.returncode == 0 and "note: new episodes of PointEnv are started: --fresh_episodes" in done.stdout

    # Going on from an older checkpoint: the later ones are another branch, and the newest is the one trained last.
    done = run_script(*short, "--checkpoint", "2", "--max_iterations", "4")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in run.glob("model_*.pt")) == ["model_0.pt", "model_2.pt", "model_4.pt"]
    superseded = {path.name for path in (run / "superseded").rglob("*")}
    assert superseded >= {"model_3.pt", "model_4.pt", "model_5.pt", "model_6.pt", "config_from_3.yaml"}
    (run / "model_4.pt").write_bytes(b"not a checkpoint")
    done = run_script(*short, "--checkpoint", "4", "--max_iterations", "5")
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1
    assert "model_4.pt is damaged" in done.stderr and "use model_2.pt (--checkpoint 2)" in done.stderr
    done = run_script(*short, "--max_iterations", "5")
    assert done.returncode == 0 and "note: model_4.pt is damaged; resuming from model_2.pt" in done.stdout
    lines = [json.loads(line)["iteration"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert lines == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("task", ["go2_flat", pytest.param("go2_flat_blind", marks=pytest.mark.slow)])
def test_a_go2_is_trained_judged_and_played(run_script, root, experiment, task):
    name = experiment
    arguments = ("--task", task, "--experiment_name", name)
    done = run_script("scripts/train.py", *arguments, *TINY, "--max_iterations", "1", "--run_name", task)
    assert done.returncode == 0, done.stderr
    (run,) = folder_of(root, name).glob(f"*_{task}")

    done = run_script(
        "scripts/evaluate.py",
        *arguments,
        "--load_run",
        run.name,
        "--num_envs",
        "4",
        "--seconds",
        "0.4",
        "--num_seeds",
        "2",
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.strip().splitlines()[-1])
    assert {"fall_rate", "lin_vel_error", "yaw_rate_error", "env_steps", "checkpoint"} <= set(result)
    assert result["env_steps"] == 8 * 16 and result["checkpoint"].endswith("model_1.pt")

    done = run_script(
        "scripts/play.py",
        *arguments,
        "--load_run",
        run.name,
        "--num_envs",
        "2",
        "--seconds",
        "0.4",
        "--command",
        "0.5",
        "0",
        "0",
    )
    assert done.returncode == 0, done.stderr
    exported = run / "exported"
    assert (exported / "play.png").stat().st_size > 10_000
    assert (exported / "play.mp4").exists() or "no video:" in done.stdout
    policy = torch.jit.load(exported / "policy.pt")
    description = json.loads((exported / "policy.json").read_text())
    size = sum(term["size"] for term in description["observations"])
    assert description["inputs"].pop("obs") == [1, size] and description["outputs"].pop("actions") == [1, 12]
    assert ("h_in" in description["inputs"]) == ("h_out" in description["outputs"]) == (task == "go2_flat_blind")
    out = policy(torch.zeros(1, size), *(torch.zeros(shape) for shape in description["inputs"].values()))
    actions = out[0] if description["inputs"] else out
    assert actions.shape == (1, len(description["joint_names"]))
    assert description["control_period"] == pytest.approx(0.02) and description["task"] == task
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(exported / "policy.onnx"), providers=["CPUExecutionProvider"])
    stored = session.get_modelmeta().custom_metadata_map
    assert json.loads(stored["joint_names"]) == description["joint_names"] and json.loads(stored["task"]) == task


def test_two_trainings_at_once_get_a_folder_each(root, tmp_path):
    from rsl_rl.utils.files import make_new_folder

    folders = [make_new_folder(tmp_path / "experiment", "now") for _ in range(3)]
    assert [folder.name for folder in folders] == ["now", "now_2", "now_3"]


def test_a_task_that_is_no_legged_robot_is_evaluated_by_its_episodes_and_exported(run_script, root, experiment):
    arguments = ("--task", "toy", "--experiment_name", experiment)
    done = run_script("scripts/train.py", *arguments, *TINY, "--max_iterations", "1", "--run_name", "toy")
    assert done.returncode == 0, done.stderr
    done = run_script("scripts/evaluate.py", *arguments, "--episodes", "5")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["episodes"] == 5 and result["mean_length"] > 1 and result["checkpoint"].endswith("model_1.pt")
    done = run_script("scripts/play.py", *arguments)
    assert done.returncode == 0, done.stderr
    (run,) = folder_of(root, experiment).glob("*_toy")
    assert {"policy.pt", "policy.json", "parity.json"} <= {path.name for path in (run / "exported").iterdir()}
    done = run_script("scripts/play.py", *arguments, "--command", "1", "0", "0")
    assert done.returncode == 2 and "so there is nothing to show; leave out --command" in done.stderr


STATELESS = """
from dataclasses import dataclass, field
from typing import ClassVar

from configs.toy import Toy
from rsl_rl.config.task import ToyConfig
from rsl_rl.tasks.toy import PointEnv


class ForgetfulPoint(PointEnv):
    state_dict = load_state_dict = None


@dataclass(frozen=True)
class ForgetfulToy(ToyConfig):
    builds: ClassVar[str] = "forgetful:ForgetfulPoint"


@dataclass(frozen=True)
class Forgetful(Toy):
    task: str = "forgetful:Forgetful"
    env: ForgetfulToy = field(default_factory=ForgetfulToy)
"""


def test_an_environment_without_a_state_goes_on_with_new_episodes_and_the_user_is_told(
    run_script, root, tmp_path, experiment
):
    (tmp_path / "forgetful.py").write_text(STATELESS)
    arguments = ("scripts/train.py", "--task", "forgetful:Forgetful", "--experiment_name", f"{experiment}-forgetful")
    done = run_script(*arguments, *TINY, "--max_iterations", "2", PYTHONPATH=str(tmp_path))
    assert done.returncode == 0 and "new episodes of" not in done.stdout, done.stderr
    done = run_script(*arguments, "--resume", "--max_iterations", "3", PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "note: new episodes of ForgetfulPoint are started: model_2.pt has no state of them" in done.stdout


def test_the_best_comes_with_the_settings_that_it_was_trained_with(tmp_path, monkeypatch):
    from configs.go2_flat import Go2Flat
    from rsl_rl.cli import command_line
    from rsl_rl.cli.play import Flags
    from rsl_rl.utils.checkpoints import write_checkpoint
    from rsl_rl.utils.config_io import write_yaml

    run = tmp_path / "go2_flat" / "run"
    run.mkdir(parents=True)
    write_yaml(Go2Flat(seed=1), run / "config.yaml")
    write_yaml(Go2Flat(seed=2), run / "config_from_5.yaml")
    write_checkpoint(run / "model_9.pt", {"model_state_dict": {}, "iter": 9})
    monkeypatch.setattr("rsl_rl.cli.command_line.default_log_root", lambda: tmp_path)
    for iteration, seed in ((4, 1), (7, 2)):
        write_checkpoint(run / "model_best.pt", {"model_state_dict": {}, "iter": iteration})
        parsed = command_line.parse(Flags, "", True, ["--task", "go2_flat", "--checkpoint", "best"])
        assert parsed.flags.checkpoint == "best" and parsed.cfg.seed == seed


def test_a_run_made_on_another_machine_is_played_with_what_is_here_and_resumed_on_that_alone(
    tmp_path, monkeypatch, capsys
):
    from dataclasses import replace

    from configs.go2_flat import Go2Flat
    from rsl_rl.cli import command_line
    from rsl_rl.cli.play import Flags as PlayFlags
    from rsl_rl.cli.train import Flags as TrainFlags
    from rsl_rl.utils.checkpoints import write_checkpoint
    from rsl_rl.utils.config_io import write_yaml

    if torch.cuda.is_available():
        pytest.skip("this machine has what the run used")
    cfg = Go2Flat()
    made = replace(cfg, sim_device="cuda:0", rl_device="cuda:0", env=replace(cfg.env, num_envs=3))
    made = replace(made, env=replace(made.env, sim=replace(made.env.sim, backend="mujoco_warp")))
    run = tmp_path / "go2_flat" / "2026-01-01_00-00-00"
    run.mkdir(parents=True)
    write_yaml(made, run / "config.yaml")
    write_checkpoint(run / "model_1.pt", {"model_state_dict": {}, "iter": 1})
    monkeypatch.setattr("rsl_rl.cli.command_line.default_log_root", lambda: tmp_path)

    def parse(from_run, *flags):
        flags_of = PlayFlags if from_run else TrainFlags
        return command_line.parse(flags_of, "", from_run, ["--task", "go2_flat", *flags]).cfg

    played = parse(True)
    assert (played.env.sim.backend, played.sim_device, played.rl_device) == ("mujoco", "cpu", "cpu")
    assert played.env.num_envs == 3
    note = "note: the run used mujoco_warp on cuda:0, which is not available here; using mujoco on cpu"
    assert capsys.readouterr().out.strip() == note
    assert parse(True, "--sim_device", "cuda:1").sim_device == "cuda:1"  # refused when it is looked for
    resumed = parse(False, "--resume")
    assert (resumed.env.sim.backend, resumed.sim_device) == ("mujoco_warp", "cuda:0")
