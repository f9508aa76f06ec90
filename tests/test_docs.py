"""Every command and every program of README.md and docs/ runs as it stands there, on a small scale."""

import dataclasses
import importlib
import re
import shlex
import shutil
import subprocess
import sys
import uuid

import pytest
import torch

from benchmarks.pairing import PEER_PACKAGES
from configs.go2_flat import flat_task
from rsl_rl.cli.experiments import import_shipped
from rsl_rl.config.learn import LearnConfig
from rsl_rl.config.task import ObservationGroupConfig, ToyConfig
from rsl_rl.evaluation.conditions import for_evaluation
from rsl_rl.evaluation.evaluate import evaluate
from rsl_rl.robots import ROBOTS
from rsl_rl.runners import OnPolicyRunner
from tests.docs_blocks import blocks, commands, pages, without_code

TINY = (
    "--num_envs", "8", "--runner.num_steps_per_env", "4",
    "--policy.actor_hidden_dims", "16", "--policy.critic_hidden_dims", "16",
)  # fmt: skip
ONCE = (*TINY, "--max_iterations", "1")
SHORT = ("--num_envs", "2", "--seconds", "0.1")
NO_FILM = ("--num_envs", "1", "--seconds", "0.1", "--no_video", "--no_plot")

SCRIPTS = {  # command -> what makes it small; each starts with a run of two iterations in its experiment
    "rsl-rl list": (),
    "rsl-rl train --help": (),
    "rsl-rl train --task go2_flat --help": (),
    "rsl-rl train --task go2_flat --help env.rewards": (),
    "rsl-rl train --task go2_flat": ONCE,
    "rsl-rl train --task go2_flat --num_envs 256 --algorithm.desired_kl 0.02": ONCE,
    "rsl-rl train --task go2_flat --num_envs 256 --env.rewards.terms.torques.weight -2e-4": ONCE,
    "rsl-rl train --task go2_flat --num_envs 4096 --sim mujoco_warp --sim_device cuda": (
        *("--sim_device", "cpu", *ONCE),
    ),
    "rsl-rl train --task go2_flat --sim mujoco --sim_device cpu --rl_device cpu": ONCE,
    "rsl-rl train --task go2_flat --video_interval 40 --evaluate_interval 20": (
        *(*ONCE, "--progress.video_seconds", "0.1", "--progress.video_robots", "1"),
        *("--progress.evaluate_robots", "2", "--progress.evaluate_seconds", "0.1"),
    ),
    "rsl-rl train --task go2_flat --evaluate_interval 5 --progress.evaluate_after 190 --progress.small_commands"
    " --progress.joystick_hours 1.7 --until_gate 1 --progress.gate_score 0.9": (
        *(*ONCE, "--progress.evaluate_robots", "2", "--progress.evaluate_seconds", "0.1"),
    ),
    "rsl-rl train --task go2_flat --max_time 3500": ONCE,
    "rsl-rl train --task go2_flat --resume": ("--max_iterations", "3"),
    "rsl-rl train --task go2_flat --resume --max_iterations 400": ("--max_iterations", "3"),
    "rsl-rl train --task go2_flat --resume --checkpoint 100": ("--checkpoint", "1", "--max_iterations", "2"),
    "rsl-rl train --task go2_flat --save_interval 20 --runner.keep_last 3 --runner.keep_every 100": ONCE,
    "rsl-rl train --task go2_flat --safety.max_skipped_steps 20 --safety.max_rollbacks 3": ONCE,
    "rsl-rl train --task go2_flat --deterministic": ONCE,
    "rsl-rl train --task go2_flat --acceleration.no_fused": ONCE,
    "rsl-rl train --task g1_flat": ONCE,
    "rsl-rl train --task recall": ("--max_iterations", "1"),
    "rsl-rl train --task target_sum": ("--max_iterations", "1"),
    "rsl-rl train --task toy_grpo --num_envs 128 --algorithm.group_size 16": ("--max_iterations", "1"),
    "rsl-rl train --task go2_flat_blind --policy.rnn_type lstm --algorithm.unroll_len 12 --algorithm.burn_in 4": (
        *("--num_envs", "8", "--max_iterations", "1"),
    ),
    "rsl-rl evaluate --task go2_flat --num_seeds 3": SHORT,
    "rsl-rl evaluate --task go2_flat --pushes": SHORT,
    "rsl-rl evaluate --task go2_flat --command_period 5": SHORT,
    "rsl-rl evaluate --task go2_flat --checkpoints 100 160 --num_seeds 5": (
        *("--checkpoints", "1", "2", "--num_seeds", "2", *SHORT),
    ),
    "rsl-rl evaluate --task go2_flat --standing "
    "--disturbance none heavy_trunk slippery delay weak_motors pushes heavy_trunk+pushes": SHORT,
    "rsl-rl evaluate --task go2_flat --joystick": ("--robot_hours", "1e-3", *SHORT),
    "rsl-rl evaluate --task go2_flat --joystick --robot_hours 5 --disturbance slippery+delay": (
        *("--robot_hours", "1e-3", *SHORT),
    ),
    "rsl-rl evaluate --task go2_flat --checkpoint best": ("--checkpoint", "-1", *SHORT),
    "rsl-rl play --task go2_flat --command 0.8 0 0": ("--num_envs", "1", "--seconds", "0.1"),
    "rsl-rl export --task go2_flat": (),
    "rsl-rl export --task go2_flat --format c": (),
}

SLOW = {  # commands that differ from faster ones of SCRIPTS in a flag which other tests cover
    "rsl-rl train --task go2_flat --num_envs 256 --env.rewards.terms.torques.weight -2e-4",
    "rsl-rl train --task go2_flat --max_time 3500",
    "rsl-rl train --task go2_flat --resume --max_iterations 400",
    "rsl-rl train --task go2_flat --save_interval 20 --runner.keep_last 3 --runner.keep_every 100",
    "rsl-rl train --task go2_flat --safety.max_skipped_steps 20 --safety.max_rollbacks 3",
    "rsl-rl train --task go2_flat --deterministic",
    "rsl-rl train --task go2_flat --acceleration.no_fused",
    "rsl-rl evaluate --task go2_flat --pushes",
    "rsl-rl evaluate --task go2_flat --command_period 5",
    "rsl-rl evaluate --task go2_flat --standing "
    "--disturbance none heavy_trunk slippery delay weak_motors pushes heavy_trunk+pushes",
    "rsl-rl evaluate --task go2_flat --checkpoints 100 160 --num_seeds 5",
    "rsl-rl train --task go2_flat --num_envs 4096 --sim mujoco_warp --sim_device cuda",
}

TERM_KINDS = ("reward", "observation", "termination", "command", "event")  # a program of own-task.md each

OWN_CODE = {  # command of a page whose files it needs -> what makes it small; they run in this order
    "rsl-rl train --task low_walk:LowWalk": ONCE,
    "rsl-rl evaluate --task low_walk:LowWalk": SHORT,
    "rsl-rl play --task low_walk:LowWalk": NO_FILM,
    "rsl-rl train --task my_robot:MyRobotFlat": ONCE,
    "rsl-rl train --task reach:ReachTask": ("--max_iterations", "1"),
    "rsl-rl train --task toy --logger csv_logger:CsvLogger": ("--max_iterations", "1"),
    "rsl-rl train --task limited_ppo:LimitedToy --algorithm.advantage_limit 2.0": ("--max_iterations", "1"),
    "rsl-rl train --task near:NearTask": ("--max_iterations", "1"),
    'rsl-rl train --task go2_track --env.commands.terms.motion.params.clips "trot speed=0.4" bow': ONCE,
    "rsl-rl train --task anymal_track:AnymalTrack": ONCE,
    "rsl-rl train --task gym_hopper": ("--max_iterations", "1"),
    "rsl-rl evaluate --task gym_hopper --episodes 100": ("--episodes", "2"),
    **{
        f"rsl-rl train --task gymnasium --env.id {id}": ("--max_iterations", "1")
        for id in (
            "MountainCarContinuous-v0 --experiment_name mountain_car",
            "Acrobot-v1 --policy.distribution categorical --experiment_name acrobot",
        )
    },
}

SMALL_LEARNER = ("--num_envs", "8", "--hidden_dims", "8", "--rnn_hidden_size", "8", "--repeats", "1")
BENCHMARKS = {  # command, with names of what the test gives it -> what makes it small
    "rsl-rl benchmark learner --policy lstm --hidden_dims 256 128 --num_envs 1024 --peer peer": SMALL_LEARNER,
    "rsl-rl benchmark learner --num_envs 256 1024 4096 --plot learner.png": SMALL_LEARNER,
    "rsl-rl benchmark sim --task go2_flat --num_envs 256 1024 4096 --bare": (
        *("--num_envs", "4", "--seconds", "0.05", "--repeats", "1"),
    ),
    "rsl-rl benchmark train --task go2_flat --seeds 1 2 3": (
        *("--seeds", "1", "--every", "1", "--num_robots", "4", "--seconds", "0.1"),
        *("--overrides", "num_envs=8", "max_iterations=1"),
    ),
    "rsl-rl benchmark faults --rates 1e-3 1e-2 --peer peer": (
        *("--kinds", "reward nan", "--rates", "0.05", "--seeds", "1", "--num_envs", "64", "--iterations", "20"),
        *("--num_robots", "4", "--pairs", "1", "--warm_up", "1"),
    ),
    "rsl-rl benchmark gpu --peer peer --folder gpu_benchmark": (
        *("--device", "cpu", "--num_envs", "4", "--repeats", "1", "--parts", "iterations", "simulator"),
    ),
    "rsl-rl benchmark collectives": ("--kilobytes", "1", "2", "--repeats", "1"),
    "rsl-rl benchmark scaling --plot scaling.png": (),
}

WEIGHTS = {  # command of CONTRIBUTING.md -> what makes it small
    "python -m benchmarks.weights": ("toy", "--num_updates", "1", "--num_envs", "8"),
    "torchrun --nproc_per_node=2 -m benchmarks.weights toy": ("--num_updates", "1", "--num_envs", "8"),
}

ROBOT_LOOP = "python robot_loop.py policy.onnx --driver udp_driver --address 127.0.0.1:9870"

ELSEWHERE = {  # command -> the test or the job that runs it
    "torchrun --nproc_per_node=4 -m rsl_rl train --task go2_flat --num_envs 16384": "tests/distributed",
    "torchrun --nproc_per_node=4 -m rsl_rl train --task go2_flat --resume": "tests/distributed",
    "torchrun --nproc_per_node=4 --max_restarts=3 -m rsl_rl train --task go2_flat": "tests/distributed",
    "torchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d --rdzv_id=walk "
    "--rdzv_endpoint=first-machine:29400 -m rsl_rl train --task go2_flat": "two machines, which no test has",
    f"pip install --no-deps --target peer {PEER_PACKAGES}": "the fixture 'peer'",
    'pip install -c constraints.txt ".[sim,video]"': "tests/test_readme.py",
    'pip install -c constraints.txt ".[sweep]"': "tests/test_readme.py",
    'pip install -c constraints.txt ".[gymnasium,sim]"': "tests/test_readme.py, slow",
    "rsl-rl audit --task go2_flat": "tests/evaluation/test_audit.py",
    "rsl-rl audit --task go2_flat --load_run -1": "tests/evaluation/test_audit.py",
    "rsl-rl audit --task go2_flat --report audit.html": "tests/evaluation/test_audit.py",
    "rsl-rl train --task go2_flat --audit": "tests/evaluation/test_audit.py",
    "rsl-rl check-env Pendulum-v1": "tests/env/test_check.py",
    "rsl-rl train --task go2_flat --seeds 1 2 3": "tests/cli/test_train_seeds.py",
    "rsl-rl train --task go2_flat --seeds 1 2 3 --resume": "tests/cli/test_train_seeds.py",
    "rsl-rl sweep --task recall --space algorithm.learning_rate=log:1e-4..1e-2 "
    "--space algorithm.entropy_coef=0.0,0.003,0.01 --trials 20 --seeds 1 2 3": "tests/cli/sweep/test_sweep.py",
    **{
        f"CUDA_VISIBLE_DEVICES={device} rsl-rl sweep --task go2_flat --space algorithm.entropy_coef=0.0..0.01 "
        "--trials 40 &": "tests/cli/sweep/test_sweep.py"
        for device in (0, 1)
    },
    "rsl-rl adopt my_dog.urdf": "tests/cli/test_adopt.py",
    "rsl-rl train --task my_dog.flat:MyDogFlat": "tests/cli/test_adopt.py",
    "rsl-rl evaluate --task my_dog.flat:MyDogFlat": "tests/cli/test_adopt.py",
    "rsl-rl play --task my_dog.flat:MyDogFlat --command 0.5 0 0": "tests/cli/test_adopt.py",
    "git clone https://github.com/your-account/rsl_rl.git && cd rsl_rl": "an address to fill in",
    "rsl-rl train --task go2_flat --evaluate_interval 20 --page 0": "tests/web/test_training_page.py, slow",
    "rsl-rl play --task go2_flat --page walk.html": "tests/web/test_play_page.py, slow",
    "rsl-rl play --task go2_rough --page walk.html --page_add --licence CC-BY-4.0": "tests/web/test_play_page.py, slow",
    "rsl-rl play --task go2_flat --viewer --num_envs 4": "tests/evaluation/test_teleop.py",
    "rsl-rl play --task go2_flat --viewer --follow": "tests/evaluation/test_teleop.py",
    "rsl-rl play --task go2_flat --keyboard": "tests/evaluation/test_teleop.py",
    "rsl-rl play --task go2_flat --fault_dump engine_12": "tests/evaluation/test_fault_replay.py",
    "rsl-rl play --task go2_flat --commands commands.txt --num_envs 1": "tests/test_docs_from_wheel.py, slow",
    "rsl-rl sim-to-sim logs/go2_flat/<run>/exported/policy.onnx": "tests/test_docs_from_wheel.py, slow",
    "rsl-rl sim-to-sim logs/go2_flat/<run>/exported/policy.onnx --robots 256 "
    "--friction 0.4 1.25 --payload -1 2 --gains 0.9 1.1": "tests/test_docs_from_wheel.py, slow",
    **dict.fromkeys(
        (
            "rsl-rl sim-to-sim logs/go2_flat/<run>/exported/policy.onnx --robots 4 --friction 0.4 1.25 --payload -1 2",
            "rsl-rl sim-robot logs/go2_flat/<run>/exported/policy.onnx --port 9870",
            "rsl-rl sim-robot logs/go2_flat/<run>/exported/policy.onnx --port 9870 --loss 0.2 --jitter 0.06",
            "cd logs/go2_flat/<run>/exported",
            f"{ROBOT_LOOP} --command 0.5 0 0 --seconds 10 --log walk.csv",
            "rsl-rl doctor walk.csv policy.onnx",
            f"{ROBOT_LOOP} --seconds 0",
            "cc -std=c99 -O2 -c policy.c -o policy.o",
        ),
        "tests/deploy/test_ten_steps.py",
    ),
    **dict.fromkeys(
        (
            "rsl-rl sim-robot exported/policy.onnx --port 9870 --stand --wiring wiring.json --draw_wiring 3",
            "rsl-rl bring-up --driver udp_driver --address 127.0.0.1:9870 --contract exported/policy.onnx",
            "rsl-rl sim-robot exported/policy.onnx --port 9870 --wiring wiring.json",
            "python exported/robot_loop.py exported/policy.onnx --robot robot.yaml --driver udp_driver "
            "--address 127.0.0.1:9870 --command 0.5 0 0 --seconds 10",
        ),
        "tests/cli/test_bring_up_command.py, slow",
    ),
    "rsl-rl contract show deploy.yaml --set robot=go2": "tests/contracts/test_formats.py",
    **{
        f"rsl-rl contract {command} --set robot=go2 --set torque_limits=[{','.join(['23.7,23.7,45.4'] * 4)}]": (
            "tests/contracts/test_formats.py"
        )
        for command in ("convert deploy.yaml policy.json", "diff policy.json deploy.yaml")
    },
    "rsl-rl contract schema": "tests/contracts/test_formats.py",
    "rsl-rl evaluate --policy motion.pt --contract g1.yaml --robot g1": "tests/evaluation/test_contract_policy.py",
    "rsl-rl evaluate --policy policy.onnx --contract deploy.yaml --robot robot.xml --set torque_limits=88": (
        "tests/robots/test_policy_robot.py"
    ),
    "rsl-rl evaluate --policy ours.onnx theirs.pt --contract ours.json theirs.yaml --robot go2 "
    "--disturbance none slippery --joystick": "tests/evaluation/test_contract_policy.py",
    "rsl-rl play --policy motion.pt --contract g1.yaml --robot g1 --command 0.5 0 0": (
        "tests/evaluation/test_contract_policy.py"
    ),
    "git clone https://github.com/leggedrobotics/legged_gym.git && cd legged_gym": "a repository of others",
    "pip install ../rsl_rl ../rsl_rl/gymapi-mujoco scipy matplotlib": "by hand",
    "python -m gymapi_mujoco legged_gym/scripts/train.py --task anymal_c_flat --headless --num_envs 512 "
    "--max_iterations 600": "by hand",
    "python -m gymapi_mujoco legged_gym/scripts/train.py --task go2 --headless --num_envs 4096 --max_iterations 3": (
        "by hand"
    ),
    "python -m gymapi_mujoco legged_gym/scripts/play.py --task anymal_c_flat --num_envs 16": "by hand",
    "python -m gymapi_mujoco ../rsl_rl/benchmarks/legged_gym_policy.py --task anymal_c_flat --headless": "by hand",
    "python -m gymapi_mujoco ../rsl_rl/benchmarks/legged_gym_policy.py --policy deploy/pre_train/h1_2/motion.pt "
    "--task h1_2 --headless": "by hand",
    "pip install '../rsl_rl/gymapi-mujoco[warp]'": "by hand",
    "python -m gymapi_mujoco --engine warp legged_gym/scripts/train.py --task anymal_c_flat --headless": (
        "gymapi-mujoco/tests/test_gymapi_client.py, with a client of ours"
    ),
    "python benchmarks/gym_interface.py --num_envs 512 4096": "by hand",
    "python benchmarks/gym_interface.py --num_envs 512 4096 --cones": "by hand",
    "python gymapi-mujoco/checks/physics.py": "gymapi-mujoco/tests/test_gymapi_physics.py",
    "python gymapi-mujoco/checks/isaacgymenvs.py PATH_OF_ISAACGYMENVS": "by hand",
    "python gymapi-mujoco/checks/ase.py PATH_OF_ASE": "by hand",
    **{
        f"PYTHONPATH=PATH_OF_THIS_REPOSITORY python tests/compat/probes.py {version}": "tests/compat/test_probes.py"
        for version in (3, 5)
    },
    **{
        f"rsl-rl {command} --task go2_track": "tests/cli/test_track.py, slow"
        for command in ("train", "evaluate", "play")
    },
    **{
        f"rsl-rl {command} --task my_dog.track:MyDogTrack": "tests/cli/test_adopt.py, slow"
        for command in ("train", "evaluate", "play")
    },
    **{f"rsl-rl {command} --task go2_style": "tests/cli/test_track.py, slow" for command in ("train", "evaluate")},
    "rsl-rl train --task go2_rough": "tests/cli/test_on_terrain.py",
    "rsl-rl evaluate --task go2_rough --terrain stairs_up --level 2": "tests/cli/test_on_terrain.py",
    "rsl-rl play --task go2_rough --terrain stairs_up --level 5": "tests/cli/test_on_terrain.py",
    "rsl-rl train --task go2_rough_teacher": "tests/test_architecture.py",
    "rsl-rl train --task go2_rough_student --algorithm.teacher_run logs/go2_rough_teacher/<run>": (
        "tests/test_architecture.py"
    ),
    "pip install 'rsl-rl-lib[sim,video,export]'": "by hand",
    "pip install 'rsl-rl-lib[hub]'": "by hand",
    "rsl-rl zoo list": "tests/cli/test_zoo_command.py",
    "rsl-rl zoo play go2_flat": "tests/cli/test_zoo_command.py",
    "rsl-rl zoo reproduce go2_flat": "tests/cli/test_zoo_command.py, slow",
    'rsl-rl zoo add logs/go2_flat/<run> --licence BSD-3-Clause --weakness "It falls on slippery ground."': (
        "tests/cli/test_zoo_command.py"
    ),
    "rsl-rl train --task rsl_rl_zoo.robots.solo12.flat:Solo12Flat --seed 1": "tests/cli/test_zoo_command.py",
    "rsl-rl zoo add logs/solo12_flat/<run> --name solo12_flat --licence BSD-3-Clause": "tests/cli/test_zoo_command.py",
    **dict.fromkeys(
        (
            "rsl-rl zoo push go2_flat your-name/zoo",
            "rsl-rl zoo pull your-name/zoo",
            "rsl-rl zoo pull your-name/zoo go2_flat --zoo my_zoo",
        ),
        "tests/zoo/test_zoo_hub.py",
    ),
    **{
        f"rsl-rl motion {command}": "tests/cli/test_motion.py"
        for command in (
            "generate --robot go2",
            "generate --robot go2 --gait trot --speed 0.8 --output trot.npz",
            "generate --robot g1 --motion squat --output squat.npz",
            "show trot.npz --robot go2",
            "show trot.npz --robot go2 --output trot.html",
            "check trot.npz --robot go2",
            "import walk.csv --robot g1 --joints g1_29 --fps 30",
            "retarget trot.npz --from go2 --to anymal_c",
            "export trot.npz --seconds 10",
        )
    },
    **dict.fromkeys(
        (
            "rsl-rl identify --excite excitation.csv --contract policy.json --torque_share 0.5 --amplitude 0.4",
            "python excite.py excitation.csv --contract policy.json --driver udp_driver --address 127.0.0.1:9870 "
            "--log stand.csv",
            "rsl-rl identify stand.csv --contract policy.json --report identified.html",
            "rsl-rl train --task go2_flat --env.identified identified.yaml",
            "rsl-rl train-actuator torques.csv --contract policy.json",
            "rsl-rl train --task go2_flat --env.identified actuator.yaml",
        ),
        "tests/hardware/test_identify_page.py",
    ),
    **dict.fromkeys(
        (
            "mkdir -p asked/rsl_rl_lib-2.2.4.dist-info",
            r"printf 'Metadata-Version: 2.1\nName: rsl-rl-lib\nVersion: 2.2.4\n' > "
            "asked/rsl_rl_lib-2.2.4.dist-info/METADATA",
            "PYTHONPATH=asked python go2_train.py",
        ),
        "tests/compat/test_traps.py",
    ),
    "make walk": "tests/test_walk.py, slow",
    "make test": ".ci/run",
    "make check": ".ci/run",
    "make test-slow": "by hand",
    "make docs": ".ci/run",
    "PYTHONPATH=PATH_OF_THIS_REPOSITORY:. python -m pytest tests --continue-on-collection-errors": "by hand",
}


def test_every_command_of_the_pages_is_known(root):
    written = {command for page in pages(root) for command in commands(page)}
    assert written == {*SCRIPTS, *OWN_CODE, *BENCHMARKS, *WEIGHTS, *ELSEWHERE}


def test_every_test_that_runs_a_command_exists(root):
    named = [place.partition(",")[0] for place in ELSEWHERE.values()]
    assert [place for place in named if place.startswith("tests/") and not (root / place).exists()] == []


# Commands


def arguments_of(command):
    """Return the arguments of Python for a command `rsl-rl ...` of the checkout."""
    program, *words = shlex.split(command)
    assert program == "rsl-rl"
    return ["-m", "rsl_rl", *words]


@pytest.fixture(scope="module")
def finished_run(programs, pytestconfig):
    """A run of go2_flat with the checkpoints of two iterations."""
    logs = pytestconfig.rootpath / "logs"
    experiment = f"docs-{uuid.uuid4().hex[:8]}"
    command = ["scripts/train.py", "--task", "go2_flat", *TINY, "--max_iterations", "2", "--save_interval", "1"]
    done = programs.run(*command, "--experiment_name", experiment)
    assert done.returncode == 0, done.stderr
    yield next((logs / experiment).iterdir())
    shutil.rmtree(logs / experiment, ignore_errors=True)


@pytest.fixture
def experiment(finished_run, root):
    """The name of an experiment with a copy of the finished run."""
    name = f"docs-{uuid.uuid4().hex[:8]}"
    shutil.copytree(finished_run, root / "logs" / name / finished_run.name)
    yield name
    shutil.rmtree(root / "logs" / name, ignore_errors=True)


@pytest.mark.parametrize(
    "command", [pytest.param(command, marks=[pytest.mark.slow] if command in SLOW else []) for command in SCRIPTS]
)
def test_command_runs_as_written(rsl_rl_here, experiment, command):
    of_experiment = () if command == "rsl-rl list" else ("--experiment_name", experiment)
    assert rsl_rl_here(*shlex.split(command)[1:], *SCRIPTS[command], *of_experiment) == 0


@pytest.mark.slow
def test_commands_on_own_code_run_as_written(run_script, root, tmp_path):
    write_titled_blocks(root, tmp_path)
    experiment = f"docs-{uuid.uuid4().hex[:8]}"
    try:
        for command, small in OWN_CODE.items():
            name = f"{experiment}/{command.split()[3]}".replace("/", "-").replace(":", "-")
            run_words = (*arguments_of(command), *small, "--experiment_name", name)
            done = run_script(*run_words, PYTHONPATH=f"{tmp_path}:{root}")
            assert done.returncode == 0, f"{command}\n{done.stderr}"
        (rewards,) = (root / "logs" / f"{experiment}-toy").glob("*/rewards.csv")
        assert rewards.read_text().startswith("1,")
    finally:
        for folder in (root / "logs").glob(f"{experiment}-*"):
            shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.parametrize("command", BENCHMARKS)
def test_benchmark_runs_as_written(run_script, peer, tmp_path, command):
    here = {
        "peer": str(peer),
        **{name: str(tmp_path / name) for name in ("learner.png", "scaling.png", "gpu_benchmark")},
    }
    done = run_script(*(here.get(word, word) for word in arguments_of(command)), *BENCHMARKS[command])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "command", [pytest.param(command, marks=[pytest.mark.slow] * command.startswith("torchrun")) for command in WEIGHTS]
)
def test_weights_command_prints_a_digest(run_script, command):
    launcher, *rest = command.split()
    done = run_script(*(["-m", "torch.distributed.run"] if launcher == "torchrun" else []), *rest, *WEIGHTS[command])
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"toy +[0-9a-f]{16}", done.stdout.splitlines()[-1])


# Programs


def write_titled_blocks(root, folder):
    """Save the programs of the pages under the names that the pages give them."""
    for page in pages(root):
        for block in blocks(page, "python"):
            if block.title:
                (folder / block.title).write_text(block.code)


@pytest.fixture
def saved_programs(root, tmp_path, monkeypatch):
    """The programs of all pages, in the current folder and importable."""
    write_titled_blocks(root, tmp_path)
    import_shipped("rsl_rl_configs")  # of this checkout, which another one may be installed beside
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(root / "deploy")
    known = set(sys.modules)
    importlib.invalidate_caches()
    yield tmp_path
    for name in set(sys.modules) - known:
        if (tmp_path / f"{name}.py").exists():
            del sys.modules[name]


def run_untitled_blocks(page):
    """Run the programs of a page that have no file name, one after the other; return their names."""
    scope = {}
    for block in blocks(page, "python"):
        if not block.title:
            exec(compile(block.code, page.name, "exec"), scope)
    return scope


def test_program_of_the_readme_trains_and_exports(root, saved_programs):
    scope = run_untitled_blocks(root / "README.md")
    assert scope["actions"].shape == (64, 1)
    assert (saved_programs / "logs/toy/first/exported/policy.pt").exists()


def test_programs_of_embed_train_load_and_export(root, saved_programs, capsys):
    scope = run_untitled_blocks(root / "docs" / "embed.md")
    assert capsys.readouterr().out.startswith("[]\n")  # check_vec_env found nothing to correct
    assert scope["actions"].shape == (64, 1)
    assert (saved_programs / "logs/reach/first/exported/policy.pt").exists()
    assert scope["runner"].current_learning_iteration == 22


def test_programs_of_motion_make_clips(root, saved_programs, capsys):
    scope = run_untitled_blocks(root / "docs" / "motion.md")
    name, length = capsys.readouterr().out.splitlines()
    assert name.startswith("pace 0.60 0.00 0.40 25 torch.Size([25, 13, 3])")
    assert scope["both"].length == pytest.approx(float(length)) and (saved_programs / "both.npz").exists()


def test_programs_of_terrain_give_ground_and_scan(root, saved_programs):
    scope = run_untitled_blocks(root / "docs" / "terrain.md")
    task = importlib.import_module("steep_walk").SteepWalk().env
    randomization = task.randomization.with_terms(scope["events"])
    observations = {**task.observations, "scan": ObservationGroupConfig(scope["scan"])}
    env = dataclasses.replace(task, num_envs=4, observations=observations, randomization=randomization).build()
    assert env.get_observations()["scan"].shape == (4, 187) and env.state.scan_error.any()
    assert env.terrain.types == ("stairs_up", "slope_down", "ditch") and env.terrain.ground.heights.min() < -0.1


def test_programs_of_migrating_check_an_environment_and_convert_a_checkpoint(root, saved_programs, capsys):
    (saved_programs / "my_package").mkdir()
    (saved_programs / "my_package" / "envs.py").write_text(
        "from rsl_rl.config.task import ToyConfig\n\n\ndef make_env():\n    return ToyConfig().build()\n"
    )
    OnPolicyRunner(ToyConfig().build(), LearnConfig()).save(saved_programs / "model_1500.pt")
    (saved_programs / "logs/go2/run").mkdir(parents=True)
    (saved_programs / "model_1500.pt").rename(saved_programs / "logs/go2/run/model_1500.pt")
    run_untitled_blocks(root / "docs" / "migrating.md")
    assert "nothing to correct" in capsys.readouterr().out
    assert "actor_state_dict" in torch.load(saved_programs / "model_1500_v5.pt", weights_only=True)


def test_every_program_is_run(root):
    """The tests name every page with programs without a file name, and every file."""
    untitled = {page.name for page in pages(root) for block in blocks(page, "python") if not block.title}
    titled = {block.title for page in pages(root) for block in blocks(page, "python")} - {""}
    assert untitled == {"README.md", "embed.md", "migrating.md", "motion.md", "terrain.md"}
    assert titled == {
        *("low_walk.py", "my_robot.py", "reach.py", "on_the_robot.py", "my_driver.py"),
        *("steep_walk.py", "rail.py", "small_start.py", "csv_logger.py", "own_loop.py", "named_joints.py", "near.py"),
        *("reward_term.py", "observation_term.py", "termination_term.py", "command_term.py", "event_term.py"),
        *("motors.py", "randomised_task.py", "limited_ppo.py", "own_metric.py", "audit_go2.py"),
        *("my_track.py", "anymal_track.py", "my_style.py"),
    }


def test_programs_of_tracking_give_a_task_of_clips_and_one_with_a_style(saved_programs):
    task = importlib.import_module("my_track").MyTrack().env
    env = dataclasses.replace(task, num_envs=2).build()
    assert env.commands.sources["motion"].reference.names == ("trot speed=0.3", "trot speed=0.7", "bow")
    task = importlib.import_module("anymal_track").AnymalTrack().env
    env = dataclasses.replace(task, num_envs=2).build()
    assert env.step(torch.zeros(2, 12)).reward.isfinite().all() and env.state.robot is ROBOTS.load("anymal_c")
    cfg = importlib.import_module("my_style").MyStyle()
    env = dataclasses.replace(cfg.env, num_envs=2).build()
    style = cfg.extensions[0].build(env, None, "cpu")
    assert style.demonstrated.shape[1] == 2 * env.get_observations()["style"].shape[1]


def test_program_of_a_robot_written_by_hand_keeps_the_pose_of_the_robot(saved_programs):
    program = importlib.import_module("my_robot")
    env = dataclasses.replace(program.MyRobotFlat().env, num_envs=1).build()
    assert env.state.default_joint_pos.tolist() == pytest.approx(program.MY_ROBOT.default_joint_pos)


def test_each_program_of_own_terms_gives_a_task_with_that_term(saved_programs):
    tasks = {kind: importlib.import_module(f"{kind}_term").my_task() for kind in TERM_KINDS}
    envs = {kind: dataclasses.replace(task, num_envs=4).build(seed=1) for kind, task in tasks.items()}
    steps = {kind: [env.step(torch.randn(4, 12)) for _ in range(3)] for kind, env in envs.items()}
    for kind in TERM_KINDS:
        assert all(group.isfinite().all() for step in steps[kind] for group in step.obs.values())
        mirrors = envs[kind].mirrors()  # which the policy of go2_flat needs
        assert {name: len(index) for name, (index, _) in mirrors.items() if name != "actions"} == {
            name: group.shape[1] for name, group in steps[kind][0].obs.items()
        }
    assert "rew_smooth_knees" in steps["reward"][0].extras["log"]
    mirrored = envs["observation"].mirrors()["critic"][0]
    assert steps["observation"][0].obs["policy"].shape == (4, 50 + 2 * 12)
    assert steps["observation"][0].obs["critic"].shape == (4, len(mirrored))
    assert envs["termination"].cfg.terminations.all_terms.keys() == {"forbidden_contact", "tilt", "too_low"}
    heights = envs["command"].state.commands["height"]
    torch.testing.assert_close(steps["command"][-1].obs["critic"][:, -1:], 5.0 * heights)
    friction = envs["event"].state.friction.clone()
    envs["event"].reset([2])
    assert (envs["event"].state.friction != friction).tolist() == [False, False, True, False]


OWN_TASK = """
from dataclasses import dataclass, field

from configs.go2_flat import Go2Flat
from {module} import my_task
from rsl_rl.config.task import LeggedRobotConfig


@dataclass(frozen=True)
class Own(Go2Flat):
    task: str = "own_{module}:Own"
    env: LeggedRobotConfig = field(default_factory=my_task)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", TERM_KINDS)
def test_each_program_of_own_terms_is_trained_evaluated_exported_and_simulated(kind, run_script, root, tmp_path):
    pytest.importorskip("onnxruntime")
    write_titled_blocks(root, tmp_path)
    module, experiment = f"{kind}_term", f"docs-{uuid.uuid4().hex[:8]}"
    (tmp_path / f"own_{module}.py").write_text(OWN_TASK.format(module=module))
    steps = {
        "train": ONCE,
        "evaluate": ("--num_envs", "4", "--seconds", "2", "--report", str(tmp_path / "report.html")),
        "play": (*NO_FILM, "--command", "0.5", "0", "0"),
    }
    try:
        for name, flags in steps.items():
            flags = ("--task", f"own_{module}:Own", "--experiment_name", experiment, *flags)
            done = run_script(f"scripts/{name}.py", *flags, PYTHONPATH=f"{tmp_path}:{root}")
            assert done.returncode == 0, f"{name}: {done.stdout[-2000:]}{done.stderr}"
        assert "touches the floor" in (tmp_path / "report.html").read_text()
        (policy,) = (root / "logs" / experiment).glob("*/exported/policy.onnx")
        done = run_script("deploy/sim_to_sim.py", str(policy), "--robots", "1", "--seconds", "1")
        if kind == "observation":  # joint positions with a history
            assert '"history": 3' in (policy.parent / "policy.json").read_text()
        assert done.returncode == 0, done.stderr
    finally:
        shutil.rmtree(root / "logs" / experiment, ignore_errors=True)


class Still:
    """A policy that holds the standing pose."""

    def __call__(self, obs):
        return torch.zeros(len(obs["policy"]), 12)

    def reset(self, dones=None):
        pass


def test_metric_of_own_task_is_evaluated_and_limited(saved_programs):
    cfg = for_evaluation(importlib.import_module("own_metric").my_task(), 2, 0.1)
    result = evaluate(cfg.build(seed=1), Still(), 0.1)
    assert 0.05 < result["knee_height"] < 0.3 and cfg.gate["knee_height"] == 0.3


def test_programs_of_actuators_and_randomisation_give_tasks(saved_programs):
    motors = importlib.import_module("motors").task_with_motors()
    randomised = importlib.import_module("randomised_task").randomised_task()
    for task in (motors, randomised):
        env = dataclasses.replace(task, num_envs=4).build(seed=1)
        step = env.step(torch.randn(4, 12))
        assert all(group.isfinite().all() for group in step.obs.values())
    assert "Randomization/motor_strength_mean" in step.extras["log"]


def test_rewards_of_named_joints_are_those_of_the_go2(saved_programs):
    rewards = importlib.import_module("named_joints").rewards
    env = dataclasses.replace(flat_task(), num_envs=2, rewards=rewards).build()
    assert {"rew_front_legs", "rew_front_slip"} <= set(env.step(torch.zeros(2, 12)).extras["log"])


@torch.no_grad()
def mean_reward(env, policy, num_steps=64):
    obs, total = env.get_observations(), 0.0
    for _ in range(num_steps):
        obs, reward, done, _ = env.step(policy(obs))
        policy.reset(done)
        total += reward.mean().item() / num_steps
    return total


def test_audit_go2_prints_the_dead_zones(saved_programs, capsys):
    importlib.import_module("audit_go2")
    assert capsys.readouterr().out.startswith("{'forward': ")


def test_rail_learns_with_camera_memory_curiosity_auxiliary_loss_and_symmetry(saved_programs):
    rail = importlib.import_module("rail")
    runner = rail.train(iterations=10)
    assert mean_reward(rail.Rail(), runner.get_inference_policy()) > 0.6  # doing nothing earns 0, the best about 0.75
    extensions = runner.alg.extensions
    assert [type(extension).__name__ for extension in extensions.all] == ["Curiosity", "PositionLoss", "Symmetry"]
    runner.save(saved_programs / "model.pt")
    twin = rail.train(iterations=0)
    twin.load(saved_programs / "model.pt")
    states = [r.alg.extensions.state_dict() for r in (runner, twin)]
    assert torch.equal(states[0]["1_PositionLoss"]["layer"]["weight"], states[1]["1_PositionLoss"]["layer"]["weight"])


def test_own_loop_trains_on_a_rollout_buffer(saved_programs):
    policy = importlib.import_module("own_loop").train()
    env, total = ToyConfig(num_envs=500).build(seed=9), 0.0
    with torch.no_grad():
        for _ in range(48):
            total += env.step(policy.act_inference(env.get_observations())).reward.mean().item() / 48
    assert total > 0.7  # at best 0.93, and 0 for doing nothing


def test_near_comes_nearer_by_two_observation_groups(saved_programs):
    pytest.importorskip("gymnasium")
    cfg = importlib.import_module("near").NearTask()
    env = cfg.env.build(seed=1)
    runner = OnPolicyRunner(env, cfg)
    before = mean_reward(cfg.env.build(seed=2), runner.get_inference_policy())
    runner.learn(8)
    after = mean_reward(cfg.env.build(seed=2), runner.get_inference_policy())
    assert after > 0.6 * before  # rewards are negative distances
    assert set(env.get_observations()) == {"position", "goal"}


def test_small_start_trains_with_its_own_network(saved_programs):
    small_start = importlib.import_module("small_start")
    runner = small_start.train()
    assert isinstance(runner.alg.policy, small_start.SmallStart)
    assert runner.alg.policy.cfg.scale == 0.01


def test_limited_ppo_trains_with_its_limit(saved_programs):
    limited_ppo = importlib.import_module("limited_ppo")
    algorithm = limited_ppo.LimitedPPOConfig(advantage_limit=0.25)
    runner = OnPolicyRunner(
        ToyConfig(num_envs=16).build(), dataclasses.replace(limited_ppo.LimitedToy(), algorithm=algorithm)
    )
    runner.learn(1)
    assert isinstance(runner.alg, limited_ppo.LimitedPPO)
    assert runner.alg.storage.columns["advantages"].abs().max().item() == 0.25


def test_on_the_robot_moves_the_joints_of_a_driver(saved_programs, monkeypatch):
    """The loop of the page, on a description of the Go2 with a network that gives zeros and a driver that records."""
    import numpy as np
    import onnx_policy

    names = [f"{leg}_{joint}" for leg in ("FL", "FR", "RL", "RR") for joint in ("hip", "thigh", "calf")]
    sizes = {"base_lin_vel": 3, "base_ang_vel": 3, "gravity": 3, "command": 3, "joint_pos": 12, "joint_vel": 12}
    frames = onnx_policy.FRAMES
    terms = [{"name": name, "size": size, "scale": 1.0, "frame": frames[name]} for name, size in sizes.items()]
    description = {
        "inputs": {"obs": [1, 36]}, "observations": terms, "joint_names": names, "default_joint_pos": [0.5] * 12,
        "action_scale": 0.25, "action_clip": 20.0, "stiffness": [30.0] * 12, "damping": [0.75] * 12,
        "torque_limits": [20.0] * 12, "control_period": 0.001,
    }  # fmt: skip

    def open_policy(path, joint_names):
        assert path == "policy.onnx"
        return onnx_policy.Policy(description, lambda obs: (np.zeros((1, 12), np.float32),), joint_names)

    monkeypatch.setattr(onnx_policy, "OnnxPolicy", open_policy)

    class Driver:
        joint_names = names
        base_quat, gyro, velocity = (1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
        joint_pos = joint_vel = (0.0,) * 12
        targets, stiffness = (), ()

        def hold(self, targets, stiffness, damping):
            self.targets, self.stiffness = (*self.targets, targets), (*self.stiffness, stiffness[0])

    walk = importlib.import_module("on_the_robot").walk
    driver = Driver()
    walk(driver, seconds=0.005)
    assert np.allclose(driver.targets, 0.5) and len(driver.targets) == 5

    class LosesItsGyro(Driver):
        @property
        def gyro(self):
            return None if len(self.targets) >= 2 else (0.0, 0.0, 0.0)

    driver = LosesItsGyro()
    with pytest.raises(onnx_policy.PolicyStoppedError, match="senses base_ang_vel"):
        walk(driver, seconds=1.0)
    assert driver.stiffness == (30.0,) * (2 + onnx_policy.MAX_HELD) + (0.0,)


# Text


def anchors(page):
    """Return the anchors of the headings of a page, as MkDocs and GitHub make them."""
    headings = re.findall(r"^#+ (.+)$", without_code(page), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_every_link_to_a_file_or_a_heading_has_a_target(root):
    for page in pages(root):
        for target in re.findall(r"\]\((?!https?:)([^)]+)\)", without_code(page)):
            path, _, anchor = target.partition("#")
            linked = page.parent / path if path else page
            assert linked.exists(), f"{page.name}: {target}"
            if anchor and linked.name != "api.md":
                assert anchor in anchors(linked), f"{page.name}: {target}"


def test_every_page_is_in_the_site_and_the_index(root):
    names = {page.name for page in (root / "docs").glob("*.md")}
    nav = (root / "docs" / "config" / "mkdocs.yml").read_text()
    assert set(re.findall(r": (\S+\.md)$", nav, flags=re.M)) == names
    index = (root / "docs" / "index.md").read_text()
    assert set(re.findall(r"\((\S+\.md)\)", index)) == names - {"index.md"}


@pytest.mark.parametrize("package", ["env", "runners", "algorithms", "extensions", "modules", "storage"])
def test_api_reference_names_every_public_object(root, package):
    module = importlib.import_module(f"rsl_rl.{package}")
    reference = set(re.findall(r"^::: (\S+)$", (root / "docs" / "api.md").read_text(), flags=re.M))
    named = {path.rpartition(".")[2] for path in reference}
    assert [name for name in module.__all__ if name not in named] == []


def test_site_builds_without_a_warning(root, tmp_path):
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    pytest.importorskip("material")
    config = str(root / "docs" / "config" / "mkdocs.yml")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        config,
        "--site-dir",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rsl_rl.env.vec_env.VecEnv.step" in (tmp_path / "api.html").read_text()
