"""The rules of the house, as tests: who may import whom, what loads without what, and that nothing is written to."""

import ast
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields, is_dataclass

import pytest

from configs import EXPERIMENTS
from rsl_rl.loggers import LOGGERS
from rsl_rl.sim import SIMS
from rsl_rl.tasks.robots import ROBOTS

LAYER = {
    "utils": 0,
    "config": 1,
    "modules": 2, "storage": 2, "loggers": 2,
    "env": 3, "sim": 3, "algorithms": 3, "exporters": 3,
    "runners": 4, "tasks": 4,
}  # fmt: skip
WORLD = {"sim", "tasks"}
BOTH = {"env", "utils", "config"}


def imported_folders(path):
    """The folders of rsl_rl that a file imports from, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = [node.module]
        for name in names:
            parts = name.split(".")
            if parts[0] == "rsl_rl" and len(parts) > 1:
                yield parts[1]
            assert parts[0] not in ("configs", "scripts"), f"{path}: the library imports no {parts[0]}"


def test_imports_point_down(root):
    seen = set()
    for path in (root / "rsl_rl").rglob("*/*.py"):
        here = path.relative_to(root / "rsl_rl").parts[0]
        for there in set(imported_folders(path)) - {here}:
            seen.add((here, there))
            assert LAYER[there] < LAYER[here], f"{path}: {here} may not import {there}"
            assert {here, there} & BOTH or (here in WORLD) == (there in WORLD), (
                f"{path}: the halves meet only at VecEnv"
            )
    assert ("runners", "algorithms") in seen and ("tasks", "sim") in seen  # the walk saw something


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        ("rsl_rl, rsl_rl.config.learn, rsl_rl.config.task, configs.go2_flat, rsl_rl.utils.config_io", "torch"),
        ("rsl_rl.env, rsl_rl.modules, rsl_rl.storage, rsl_rl.algorithms, rsl_rl.runners, rsl_rl.exporters", "mujoco"),
        ("rsl_rl.env, rsl_rl.runners, rsl_rl.tasks.legged_robot", "tensorboard"),
        ("rsl_rl.tasks.legged_robot, rsl_rl.tasks.toy", "mujoco"),
        ("rsl_rl.runners, rsl_rl.sim.video", "imageio"),
    ],
)
def test_nothing_is_imported_before_it_is_used(modules, absent, root):
    code = f"import sys, {modules}; sys.exit('{absent}' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0


def test_the_public_names_are_where_they_should_be():
    from rsl_rl import __version__
    from rsl_rl.algorithms import PPO
    from rsl_rl.env import StepResult, VecEnv, check_vec_env
    from rsl_rl.modules import ActorCritic, ActorCriticRecurrent, Memory, RunningNorm
    from rsl_rl.runners import OnPolicyRunner
    from rsl_rl.storage import RolloutStorage, split_and_pad_trajectories, unpad_trajectories
    from rsl_rl.utils import split_and_pad_trajectories as same

    assert same is split_and_pad_trajectories and __version__ == "6.0.0.dev0"
    assert all((PPO, StepResult, VecEnv, check_vec_env, ActorCritic, ActorCriticRecurrent, Memory, RunningNorm))
    assert all((OnPolicyRunner, RolloutStorage, unpad_trajectories))


def test_the_distribution_replaces_the_other_owner_of_the_import_name():
    from importlib.metadata import version

    assert version("rsl-rl-lib") == "6.0.0.dev0"


SEED_MEMBERS = {
    "rsl_rl.algorithms:PPO": "init_storage test_mode train_mode act process_env_step compute_returns update",
    "rsl_rl.modules:ActorCritic": "is_recurrent init_weights action_mean action_std entropy update_distribution "
    "get_actions_log_prob act act_inference evaluate reset",
    "rsl_rl.modules:ActorCriticRecurrent": "get_hidden_states reset",
    "rsl_rl.modules:Memory": "forward reset",
    "rsl_rl.storage:RolloutStorage": "Transition add_transitions _save_hidden_states clear compute_returns "
    "get_statistics mini_batch_generator reccurent_mini_batch_generator",
    "rsl_rl.runners:OnPolicyRunner": "learn save load get_inference_policy add_git_repo_to_log train_mode "
    "eval_mode export_policy_to_jit",
    "rsl_rl.env:VecEnv": "step reset get_observations get_privileged_observations",
}


@pytest.mark.parametrize("path", SEED_MEMBERS)
def test_classes_have_the_members_that_users_know(path):
    from rsl_rl.utils.registry import import_object

    cls = import_object(path)
    assert [name for name in SEED_MEMBERS[path].split() if not hasattr(cls, name)] == []


@pytest.mark.parametrize("registry", [EXPERIMENTS, LOGGERS, SIMS, ROBOTS], ids=lambda r: r.kind)
def test_every_registered_name_loads_or_names_its_missing_package(registry):
    for name in registry.names():
        try:
            assert registry.load(name) is not None
        except ModuleNotFoundError as error:
            assert error.name in ("wandb", "isaacgym")


def frozen_parts(cfg):
    yield cfg
    for f in fields(cfg):
        value = getattr(cfg, f.name)
        values = value.values() if isinstance(value, dict) else [value]
        for part in values:
            if is_dataclass(part):
                yield from frozen_parts(part)


@pytest.mark.parametrize("name", EXPERIMENTS.names())
def test_configs_are_frozen_through_and_through_and_training_leaves_them_alone(name):
    from dataclasses import replace

    from rsl_rl.runners import OnPolicyRunner
    from rsl_rl.utils.config_io import to_dict

    cfg = EXPERIMENTS.load(name)()
    for part in frozen_parts(cfg):
        with pytest.raises(FrozenInstanceError):
            setattr(part, fields(part)[0].name, None)
    cfg = replace(cfg, env=replace(cfg.env, num_envs=8))
    before = to_dict(cfg)
    runner = OnPolicyRunner(cfg.env.build(), cfg)
    runner.learn(1)
    assert to_dict(cfg) == before and runner.train_cfg is cfg


def test_every_setting_is_explained(root):
    """A field of a config has a docstring below it, which is its help on the command line."""
    for path in (root / "rsl_rl" / "config").glob("*.py"):
        for cls in (node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)):
            for field, after in zip(cls.body, [*cls.body[1:], None]):
                if not isinstance(field, ast.AnnAssign) or "ClassVar" in ast.unparse(field.annotation):
                    continue
                nested = "Config" in ast.unparse(field.annotation)  # explained by its own class
                documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                assert nested or documented or cls.name == "TaskConfig", (
                    f"{path.name}: {cls.name}.{ast.unparse(field.target)}"
                )
