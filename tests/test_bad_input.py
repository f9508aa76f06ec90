"""What a user can get wrong at a script's command line, and the one line that says so.

A mistake ends with exit code 2 and one line on stderr, before anything is trained or written.
"""

import os
import pickle
import runpy
import shlex
import shutil
import sys
from pathlib import Path

import pytest
import torch

from configs import EXPERIMENTS
from configs.go2_flat import Go2Flat
from rsl_rl.utils.config_io import write_yaml

TASKS = ", ".join(EXPERIMENTS.names())

COMMAND_LINE = {  # case: (command, words of the line)
    "no task": ("train", f"--task is missing; known tasks: {TASKS}"),
    "wrong task": ("train --task go2_flatt", f"unknown task 'go2_flatt'; known: {TASKS}. Did you mean 'go2_flat'?"),
    "task of an empty name": ("train --task ''", f"--task is missing; known tasks: {TASKS}"),
    "task without a name": ("train --task", "argument --task: expected one argument"),
    "task of a module that is not there": ("train --task nowhere.x:Task", "names the module 'nowhere', which is"),
    "task by a path that is none": ("train --task .x:Task", "'.x:Task' is not an import path; write it as"),
    "task that is a program": ("train --task os:system", f"--task os:system is not a TrainConfig; name one of {TASKS}"),
    "wrong flag": ("train --task toy --num_env 3", "unknown flag --num_env; did you mean --num_envs?"),
    "wrong nested flag": ("train --task toy --algorithm.desired_kll 3", "did you mean --algorithm.desired_kl?"),
    "flag of another library": ("train --task toy --lr 1e-3", "--lr; did you mean --algorithm.learning_rate?"),
    "wrong name of --task": ("train --taks toy", "Did you mean --task in place of --taks?"),
    "wrong section to explain": ("train --task toy --help algoritm", "no section of flags; known: policy, algorithm"),
    "wrong choice": ("train --task toy --algorithm.schedule adaptiv", "allowed: fixed, adaptive, linear. Did you mean"),
    "reward that is none": ("train --task go2_flat --env.rewards.terms.fly.weight 1", "--env.rewards.terms.fly.weight"),
    "flag without value": ("train --task toy --num_envs", "Missing value for argument '--env.num_envs"),
    "value for a switch": ("train --task toy --acceleration.compile True", "compile True: a switch takes no value;"),
    "words for a number": ("train --task toy --num_envs many", "Error parsing --env.num_envs: invalid literal"),
    "fraction for a whole number": ("train --task toy --num_envs 1.5", "invalid literal for int() with base 10: '1.5'"),
    "run to load without --resume": ("train --task toy --load_run x", "need --resume; add it, or leave them out"),
    "checkpoint without --resume": ("train --task toy --checkpoint 3", "need --resume; add it, or leave them out"),
    "physics of a task without": ("train --task toy --sim mujoco", "--sim: the task 'toy' has no physics to choose"),
    "wrong physics": ("train --task go2_flat --sim mujcoo", "unknown sim backend 'mujcoo'; known: isaacgym, mujoco,"),
    "physics that is not installed": ("train --task go2_flat --sim isaacgym", "No module named 'isaacgym': the"),
    "physics on no device": ("train --task go2_flat --sim mujoco_warp --sim_device mps", "sim_device=mps is not"),
    "wrong robot": ("train --task go2_flat --env.robot go3", "unknown robot 'go3'; known: "),
    "wrong logger": ("train --task toy --logger tensorbord", "unknown logger 'tensorbord'; known:"),
    "robot that is a program": ("train --task go2_flat --env.robot os:system", "the robot 'os:system' is a builtin"),
    "physics that is a program": ("train --task go2_flat --sim os:system", "backend 'os:system' is a builtin"),
    "physics of another class": ("train --task go2_flat --sim pathlib:Path", "'pathlib:Path' is the class Path;"),
    "logger that is a program": (
        "train --task toy --logger os:system",
        "the logger 'os:system' is a builtin_function_or_method; name a class derived from rsl_rl.loggers",
    ),
    "logger of another class": ("train --task toy --logger pathlib:Path", "logger 'pathlib:Path' is the class Path"),
    "reward that is a program": (
        "train --task go2_flat --env.rewards.terms.torques.func os:system",
        "env.rewards.terms.torques: system is not a function of a task; write one that calls it",
    ),
    "runs of nobody": ("train --task toy --log_root ~nosuchuser/x", "--log_root ~nosuchuser/x: there is no home"),
    "weights of nobody": ("train --task toy --init_from ~nosuchuser/x", "--init_from ~nosuchuser/x: there is no home"),
    "device that is none": ("train --task toy --rl_device gpu", "rl_device='gpu' is not a device; allowed: cpu, cuda"),
    "device that is not there": ("train --task toy --rl_device cuda:9", "rl_device=cuda:9: torch sees"),
    "experiment that leaves the folder": ("train --task toy --experiment_name ../x", "must be one folder name"),
    "experiment above the folder": ("train --task toy --experiment_name ..", "experiment_name='..' must be one folder"),
    "experiment without a name": ("train --task toy --experiment_name ''", "runner.experiment_name is empty; give"),
    "name of two lines": ("train --task toy --run_name 'a\nb'", r"runner.run_name='a\nb' must be one folder name"),
    "name without end": (f"train --task toy --run_name {'x' * 300}", "of at most 100 characters"),
}  # fmt: skip

VALUES = {  # flags of a training: words of the line
    "seed -1": "seed=-1: give a whole number from 0 to 4294967295",
    "num_envs 0": "env.num_envs=0: give a whole number from 1 to 10000000",
    "num_envs -4": "env.num_envs=-4: give a whole number from 1",
    "num_envs 99999999999": "env.num_envs=99999999999: give a whole number from 1 to 10000000",
    "num_envs 99999999999999999999": "env.num_envs=99999999999999999999: give a finite number, of at most 9.22e+18",
    "video_interval 5": "progress.video_interval=5: ToyConfig is not the config of a legged robot",
    "evaluate_interval 5": "progress.evaluate_interval=5: ToyConfig is not the config of a legged robot",
    "max_iterations 0": "runner.max_iterations=0: give a whole number from 1",
    "max_time nan": "runner.max_time=nan: give a finite number",
    "max_time -1": "runner.max_time=-1.0: give a time in seconds, or 0 for none",
    "runner.num_steps_per_env 0": "runner.num_steps_per_env=0: give a whole number from 1 to 1000000",
    "runner.keep_every 10": "runner.keep_every=10 has no effect without keep_last; set keep_last too",
    "algorithm.gamma 2": "algorithm.gamma=2.0 must lie in [0, 1]",
    "algorithm.gamma nan": "algorithm.gamma=nan: give a finite number",
    "algorithm.learning_rate inf": "algorithm.learning_rate=inf: give a finite number, of at most 3.4e+38 in size",
    "algorithm.clip_param 0": "algorithm.clip_param=0.0 must be positive",
    "algorithm.entropy_coef -0.1": "algorithm.entropy_coef=-0.1 must not be negative",
    "algorithm.schedule cosine": "algorithm.schedule='cosine'; allowed: fixed, adaptive, linear",
    "algorithm.num_mini_batches 100000": "a rollout of 64 environments x 16 steps has 1024 steps for num_mini_batches",
    "algorithm.burn_in 2": "algorithm.burn_in=2 has no effect without chunks; set unroll_len too",
    "algorithm.last_fn_type drop": "algorithm.last_fn_type='drop' has no effect without chunks",
    "algorithm.unroll_len 4": "unroll_len=4 is for policies with memory; set it to 0 for this one",
    "policy.actor_hidden_dims 16 0": "policy.actor_hidden_dims=(16, 0): give whole numbers from 1 to 16384",
    "policy.activation swish": "policy.activation='swish'; allowed: elu,",
    "policy.init_noise_std 0.001": "policy.init_noise_std=0.001 must lie above min_noise_std=0.01",
    "policy.actor_groups": "policy.actor_groups is empty; name at least one",
    "policy.actor_groups policy policy": "policy.actor_groups=('policy', 'policy'): name each entry once",
    "policy.critic_groups priviledged": "critic_groups names 'priviledged', and the environment gives policy",
    "acceleration.cuda_graphs": "acceleration.cuda_graphs=True needs a GPU and rl_device is the CPU; add --rl_device",
    "safety.rollback_factor 0": "safety.rollback_factor=0.0 must lie in (0, 1]",
    "safety.max_reward nan": "safety.max_reward=nan: give a finite number",
    "env.episode_steps 0": "env.episode_steps=0: give a whole number from 1",
}

GO2_VALUES = {
    "policy.actor_hidden_dims 7": "policy.actor_hidden_dims=(7,): symmetric layers have two halves, so give",
    "policy.actor_mirror.0 1 0 --policy.actor_mirror.1 1 -1": "((1, 0), (1.0, -1.0)) is not a mirror image",
    "policy.actor_mirror.0 0 --policy.actor_mirror.1 1": "policy.actor_mirror is set by hand; leave it empty",
    "env.sim.dt 0": "env.sim.dt=0.0 must lie in [1e-06, 0.1]",
    "env.sim.decimation 5000": "env.episode_length=20.0: give a time in seconds, from one control step",
    "env.episode_length nan": "env.episode_length=nan: give a finite number",
    "env.commands.lin_vel_x 1 -1": "env.commands.lin_vel_x=(1.0, -1.0): the first number must not exceed the second",
    "env.commands.yaw_rate nan 1": "env.commands.yaw_rate[0]=nan: give a finite number",
    "env.commands.resampling_time 0.001": "resampling_time=0.001 is less than one control step, env.sim.dt",
    "env.commands.standing_fraction 2": "env.commands.standing_fraction=2.0 must lie in [0, 1]",
    "env.commands.slow_fraction -0.1": "env.commands.slow_fraction=-0.1 must lie in [0, 1]",
    "env.control.stiffness 0": "env.control.stiffness=0.0 must be positive",
    "env.rewards.terms.torques.weight inf": "env.rewards.terms.torques.weight=inf: give a finite number",
    "env.rewards.terms.track_lin_vel.params.tracking_sigma -1": "tracking_sigma=-1.0 must be positive",
    "env.terminations.contact_links head head": "contact_links=('head', 'head'): name each entry once",
    "env.terminations.max_tilt 4": "env.terminations.max_tilt=4.0 must lie in (0, 3.1416]",
    "env.randomization.terms.model_parameters.params.friction 0 1": "friction=(0.0, 1.0): give positive numbers",
    "env.rewards.terms.joint_limits.params.soft_joint_limit 5": "params.soft_joint_limit=5.0 must lie in [0, 1]",
    "env.randomization.terms.model_parameters.params.payload -9 -8": "takes off more than the trunk's 6.921 kg",
    "video_interval -1": "progress.video_interval=-1: give a whole number from 0",
    "evaluate_interval 1 --progress.evaluate_seconds 0.01": "progress.evaluate_interval=1: seconds=0.01 is less than",
    "video_interval 1 --progress.video_robots 0": "progress.video_robots=0: give a whole number from 1 to 100",
    "env.observations.policy.terms.gravity.noise -1": "policy.terms.gravity.noise=-1.0 must not be negative",
}

GYMNASIUM_VALUES = {
    "env.id Pendullum-v1": "env.id='Pendullum-v1' cannot be made: Environment `Pendullum` doesn't exist",
    "env.id nowhere:Point-v0": "env.id='nowhere:Point-v0' cannot be made: No module named 'nowhere'",
    "env.id ''": "env.id is empty; give the id of an environment",
    "env.vectorization threads": "env.vectorization='threads'; allowed: sync, async, vector_entry_point",
    "env.vectorization vector_entry_point": "doesn't have a vector entry point",
    "env.actions scale": "env.actions='scale'; allowed: clip, tanh, none",
    "env.id CartPole-v1": "takes one of 2 choices and got numbers [32, 2]; set policy.distribution to 'categorical'",
    "policy.distribution categorical": "takes numbers [1] and got choices; set policy.distribution to 'gaussian' or",
}

TRAIN_TOY = "train --task toy --max_iterations 9 --resume"
RUNS = {
    "nothing to resume": ("train --task toy --experiment_name nobody --resume", "has no run with a checkpoint"),
    "unknown run": (f"{TRAIN_TOY} --load_run x", "there is no run x in"),
    "run without a name": (f"{TRAIN_TOY} --load_run ''", "there is no run '' in"),
    "folder that is no run": (f"{TRAIN_TOY} --load_run ..", "is not the folder of a run: it has no config.yaml"),
    "run that is done": ("train --task toy --resume --load_run good", "has reached max_iterations=1; increase"),
    "run of another task": ("train --task recall --experiment_name toy --resume --load_run good", "a run of the task"),
    "checkpoint that is not there": (f"{TRAIN_TOY} --load_run good --checkpoint 7", "no checkpoint of iteration 7"),
    "networks of other sizes": (
        f"{TRAIN_TOY} --load_run good --policy.actor_hidden_dims 8", "model_1.pt does not fit the policy",
    ),
    "other number of environments": (f"{TRAIN_TOY} --load_run good --num_envs 4", "the state has num_envs=16 and"),
    "seconds of whole episodes": (
        "evaluate --task toy --load_run good --seconds 5",
        "toy is a task without a legged robot; it is evaluated by whole --episodes; leave out --seconds",
    ),
    "no episodes": ("evaluate --task toy --load_run good --episodes 0", "--episodes 0: give a positive number"),
    "episodes of robots": ("evaluate --task go2_flat --episodes 5", "legged robots walk for --seconds; leave out"),
    "nothing to evaluate": ("evaluate --task go2_flat --experiment_name nobody", "has no run with a checkpoint"),
    "no robots": ("evaluate --task go2_flat --num_envs 0", "--num_envs 0: give a positive number"),
    "no time": ("evaluate --task go2_flat --seconds 0.005", "less than one control step of 0.02 s"),
    "time that is no number": ("evaluate --task go2_flat --seconds nan", "--seconds=nan: give a finite number"),
    "time without end": ("evaluate --task go2_flat --seconds 1e30", "give a time in seconds, from one control step"),
    "no time between commands": (
        "evaluate --task go2_flat --command_period 0", "--command_period 0.0: give a positive number",
    ),
    "no seeds": ("evaluate --task go2_flat --num_seeds 0", "--num_seeds 0: give a positive number"),
    "device of the physics": ("evaluate --task go2_flat --sim_device gpu", "sim_device='gpu' is not a device"),
    "checkpoint to evaluate": ("evaluate --task go2_flat --checkpoint 7", "no checkpoint of iteration 7"),
    "checkpoint in a list": ("evaluate --task go2_flat --checkpoints 1 7", "no checkpoint of iteration 7; it has 1"),
    "checkpoint that is a word": ("evaluate --task go2_flat --checkpoints 1 last", "invalid literal for int() with"),
    "best of a run without": ("evaluate --task go2_flat --checkpoints 1 best", "has no model_best.pt, which"),
    "best to play": ("play --task go2_flat --checkpoint best", "has no model_best.pt, which a training"),
    "best to resume": (f"{TRAIN_TOY} --load_run good --checkpoint best", "has no model_best.pt, which a training"),
    "checkpoint twice": ("evaluate --task go2_flat --checkpoints 1 -1", "model_1.pt is named twice; name each"),
    "run without a name to evaluate": ("evaluate --task go2_flat --load_run ''", "there is no run '' in"),
    "run twice": ("evaluate --task go2_flat --load_runs empty empty", "model_1.pt is named twice; name each run"),
    "run in a list": ("evaluate --task go2_flat --load_runs empty yesterday", "there is no run yesterday in"),
    "runs without a name": ("evaluate --task go2_flat --load_runs", "--load-runs: expected at least one argument"),
    "a run and several": (
        "evaluate --task go2_flat --load-run empty --load-runs a b", "--load_run and --load_runs exclude each other",
    ),
    "a checkpoint and several": (
        "evaluate --task go2_flat --checkpoint 1 --checkpoints 1 2", "--checkpoint and --checkpoints exclude",
    ),
    "report in no folder": ("evaluate --task go2_flat --report nowhere/x.html", "--report nowhere/x.html is not"),
    "report that is a folder": ("evaluate --task go2_flat --report ..", "--report .. is not a file in"),
    "film of negative length": ("play --task go2_flat --seconds -1", "give positive numbers"),
    "run to play": ("play --task go2_flat --load_run yesterday", "there is no run yesterday"),
    "command of one number": ("play --task go2_flat --command 0.5", "--command"),
    "command that is no number": ("play --task go2_flat --command nan 0 0", "--command[0]=nan: give a finite number"),
    "command far beyond the training": (
        "play --task go2_flat --command 1e30 0 0", "--command: vx=1e+30 and the training had -1 to 1 m/s; give at most",
    ),
}  # fmt: skip

CONFIGS = {  # what a run's config.yaml is changed to: words of the line
    "- 1\n": "config.yaml holds a list, not a mapping of settings",
    "task: [\n": "config.yaml is not valid YAML",
    "task: toy\ntask: toy\n": "the key 'task' twice",
    "task: !!python/object/apply:os.mkdir [executed]\n": "could not determine a constructor for the tag",
    "algorithm: {gama: 1}\n": "config.yaml: unknown setting 'algorithm.gama'; known here: num_learning_epochs",
    "algorithm: [1, 2]\n": "config.yaml: algorithm=[1, 2]; give a mapping of its settings",
    "algorithm:\n": "config.yaml: algorithm=None; give a mapping of its settings",
    "algorithm: {gamma: high}\n": "config.yaml: algorithm.gamma='high' is a str; give a number",
    "algorithm: {gamma: .nan}\n": "config.yaml: algorithm.gamma=nan: give a finite number",
    "policy: {kind: PPOConfig}\n": "config.yaml: policy.kind='PPOConfig'; known: ActorCriticConfig",
    "policy: {actor_hidden_dims: 32}\n": "config.yaml: policy.actor_hidden_dims=32; give a list",
    "env: {3: 4}\n": "config.yaml: unknown setting 'env.3'",
    "runner: {logger: 'os:system', max_iterations: 9}\n": "the logger 'os:system' is a builtin_function_or_method;",
}


class Executes:
    """A pickle that makes a folder when it is read the usual way."""

    def __reduce__(self):
        return os.mkdir, ("executed",)


CHECKPOINTS = {  # case: (what becomes of a good checkpoint's file, words of the line)
    "an empty file": (lambda path: path.write_bytes(b""), "model_1.pt is damaged"),
    "half a file": (lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]), "is damaged"),
    "a program": (lambda path: path.write_bytes(pickle.dumps({"model_state_dict": Executes()})), "is damaged or"),
    "a program in torch's format": (lambda path: torch.save({"model_state_dict": Executes()}, path), "is damaged or"),
    "no weights": (lambda path: torch.save({"weights": 1}, path), "it has weights and no model_state_dict"),
    "a later format": (lambda path: torch.save({"model_state_dict": {}, "format": 99}, path), "has format 99"),
    "weights of nothing": (lambda path: torch.save({"model_state_dict": {}, "iter": 1}, path), "does not fit the"),
}  # fmt: skip

IN_PROCESSES = ["wrong task", "wrong nested flag", "experiment above the folder", "device that is not there"]

TRAINING = {
    f"{task}: {flags}": (f"train --task {task} --{flags}", words)
    for task, table in (
        ("toy", VALUES),
        ("go2_flat --num_envs 4 --max_iterations 1", GO2_VALUES),
        ("gymnasium", GYMNASIUM_VALUES),
    )
    for flags, words in table.items()
}


def call(root, command):
    """Run a script as the command line does, in this process; return its exit code."""
    name, *arguments = shlex.split(command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [f"scripts/{name}.py", *arguments])
        with pytest.raises(SystemExit) as stop:
            runpy.run_path(str(root / "scripts" / f"{name}.py"), run_name="__main__")
    return stop.value.code


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A folder of runs for this module: toy/good, trained, and go2_flat/empty, with a checkpoint of nothing."""
    root, folder = Path(__file__).parent.parent, tmp_path_factory.mktemp("logs")
    small = "--num_envs 16 --policy.actor_hidden_dims 4 --policy.critic_hidden_dims 4 --logger none"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rsl_rl.cli.command_line.default_log_root", lambda: folder)
        assert call(root, f"train --task toy --max_iterations 1 {small}") == 0
        (run,) = (folder / "toy").iterdir()
        run.rename(folder / "toy" / "good")
        (folder / "go2_flat" / "empty").mkdir(parents=True)
        write_yaml(Go2Flat(), folder / "go2_flat" / "empty" / "config.yaml")
        torch.save({"model_state_dict": {}}, folder / "go2_flat" / "empty" / "model_1.pt")
        yield folder


def content(folder):
    """Every path below a folder; of files, also when they were written last."""
    return {path: path.is_file() and path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.fixture
def refused(root, logs, tmp_path, monkeypatch, capsys):
    """Return the line in which a command is refused, which has to leave everything as it was."""
    monkeypatch.chdir(tmp_path)

    def line_of(command):
        capsys.readouterr()
        before = content(logs)
        assert call(root, command) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"{command.split()[0]}.py: error: ")
        assert content(logs) == before
        assert list(tmp_path.iterdir()) == []
        return line

    return line_of


@pytest.mark.parametrize("case", [*COMMAND_LINE, *TRAINING, *RUNS])
def test_a_mistake_is_one_line_and_leaves_nothing_behind(refused, case):
    command, words = {**COMMAND_LINE, **TRAINING, **RUNS}[case]
    assert words in refused(command)


@pytest.fixture
def damaged(logs):
    """A copy of the good run, to be damaged."""
    run = logs / "toy" / "damaged"
    shutil.copytree(logs / "toy" / "good", run)
    yield run
    shutil.rmtree(run)


@pytest.mark.parametrize("text", CONFIGS)
def test_a_damaged_config_of_a_run_is_named_and_executes_nothing(refused, damaged, text):
    (damaged / "config.yaml").write_text(text)
    assert CONFIGS[text] in refused(f"{TRAIN_TOY} --load_run damaged")


@pytest.mark.parametrize("case", CHECKPOINTS)
def test_a_damaged_checkpoint_is_named_and_executes_nothing(refused, damaged, case):
    damage, words = CHECKPOINTS[case]
    damage(damaged / "model_1.pt")
    assert words in refused(f"{TRAIN_TOY} --load_run damaged --checkpoint 1")


def test_the_programs_above_would_do_harm_if_they_were_read_carelessly(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pickle.loads(pickle.dumps(Executes()))
    assert (tmp_path / "executed").is_dir()


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("MASTER_PORT=x", "MASTER_PORT='x', which torchrun sets: give a whole number from 0 to 65535, or unset RANK,"),
        ("RANK=2", "RANK='2', which torchrun sets: give a whole number from 0 to 1"),
        ("WORLD_SIZE=-1", "WORLD_SIZE='-1', which torchrun sets: give a whole number of at least 1"),
        ("LOCAL_RANK=one", "LOCAL_RANK='one', which torchrun sets: give a whole number"),
    ],
)
def test_a_variable_of_torchrun_that_cannot_be_is_one_line(refused, monkeypatch, variable, words):
    variables = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    for name, value in (*variables.items(), variable.split("=")):
        monkeypatch.setenv(name, value)
    assert words in refused("train --task toy")


@pytest.mark.parametrize("case", IN_PROCESSES)
def test_it_is_the_same_in_a_process_of_its_own(run_script, root, case):
    command, words = COMMAND_LINE[case]
    name, *arguments = shlex.split(command)
    before = set((root / "logs").glob("go2_flat*/*"))  # folders of other tests come and go
    done = run_script(f"scripts/{name}.py", *arguments)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and words in done.stderr
    assert set((root / "logs").glob("go2_flat*/*")) == before


def test_the_table_is_as_long_as_it_claims():
    assert len(COMMAND_LINE) + len(TRAINING) + len(RUNS) + len(CONFIGS) + len(CHECKPOINTS) > 100
