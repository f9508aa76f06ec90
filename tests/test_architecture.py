"""The rules of the house, as tests: who may import whom, what loads without what, and that nothing is written to."""

import ast
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from importlib.metadata import version

import graphlib
import pytest

import rsl_rl
from configs import EXPERIMENTS
from rsl_rl.loggers import LOGGERS
from rsl_rl.robots import ROBOTS
from rsl_rl.sim import SIMS

LAYER = {
    "utils": 0,
    "config": 1, "distributed": 1,
    "modules": 2, "storage": 2, "loggers": 2, "robots": 2, "adoption": 2, "terrain": 2, "viz": 2,
    "env": 3, "acceleration": 3, "exporters": 3, "sim": 3,
    "algorithms": 4, "tasks": 4,
    "extensions": 5,
    "compat": 6,
    "runners": 7, "evaluation": 7,
    "networks": 8, "models": 8,
    "cli": 8,
}  # fmt: skip
SIMULATION = {"sim", "tasks", "robots", "adoption", "terrain", "viz"}
SHARED = {"env", "utils", "config"}  # the halves meet at env
SEES_BOTH = {"evaluation", "cli"}


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
        assert here in LAYER, f"{path}: give the folder a layer"
        for there in set(imported_folders(path)) - {here}:
            seen.add((here, there))
            assert LAYER[there] < LAYER[here], f"{path}: {here} may not import {there}"
            same_half = here not in SHARED and (here in SIMULATION) == (there in SIMULATION)
            assert there in SHARED or here in SEES_BOTH or same_half, f"{path}: the halves meet only at VecEnv"
    for pair in (("runners", "algorithms"), ("algorithms", "acceleration"), ("tasks", "sim"), ("evaluation", "viz")):
        assert pair in seen  # the walk saw something


def imported_modules(path, modules):
    """The modules among ``modules`` that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in modules else node.module for name in names]
        else:
            continue
        yield from (name for name in names if name in modules)


def test_modules_import_each_other_in_no_circle(root):
    """Nor by an import inside of a function, or of types only."""
    paths = {}
    for path in (root / "rsl_rl").rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph = {name: set(imported_modules(path, paths)) - {name} for name, path in paths.items()}
    assert "rsl_rl.utils.files" in graph["rsl_rl.utils.checkpoints"]
    graphlib.TopologicalSorter(graph).prepare()  # raises a CycleError that names the modules


def test_drawing_needs_nothing_but_utils(root):
    for path in (root / "rsl_rl" / "viz").glob("*.py"):
        assert set(imported_folders(path)) <= {"viz", "utils"}


def test_nobody_replaces_the_step_of_a_simulation(root):
    for path in (root / "rsl_rl").rglob("*.py"):
        assert not re.search(r"\bsim\.step = ", path.read_text()), f"{path} replaces sim.step"


def test_the_core_knows_no_earlier_version(root):
    """Only rsl_rl.compat does: the runner reaches it by one function, when it is constructed, and names of earlier
    versions are looked up by one other. A command converts files."""
    users = {}
    for path in (root / "rsl_rl").rglob("*.py"):
        if "compat" not in path.relative_to(root / "rsl_rl").parts and "rsl_rl.compat" in path.read_text():
            users[path.relative_to(root / "rsl_rl").as_posix()] = path.read_text()
    helpers = {"utils/former_names.py", "utils/utils.py", "networks/__init__.py"}
    helpers |= {f"models/{name}.py" for name in ("__init__", "mlp_model", "rnn_model", "cnn_model")}
    assert set(users) == {"runners/on_policy_runner.py", "cli/convert_checkpoint.py", *helpers}
    runner = ast.parse(users["runners/on_policy_runner.py"])
    imported = [node.names for node in ast.walk(runner) if getattr(node, "module", None) == "rsl_rl.compat"]
    assert [[name.name for name in names] for names in imported] == [["client_of"]]
    (constructor,) = [node for node in ast.walk(runner) if getattr(node, "name", None) == "__init__"]
    used = [node for node in ast.walk(runner) if isinstance(node, ast.Name) and node.id == "client_of"]
    assert len(used) == 1 and constructor.lineno < used[0].lineno <= constructor.end_lineno


def test_no_import_is_hidden_from_the_interpreter(root):
    """An import under TYPE_CHECKING can close a cycle unseen; nobody imports cli, whose --help imports no torch."""
    files = [path for path in (root / "rsl_rl").rglob("*.py") if "cli" not in path.relative_to(root).parts]
    hiding = [path.name for path in files if "TYPE_CHECKING" in path.read_text()]
    assert hiding == []


def test_ppo_does_not_ask_what_it_runs_on_or_with(root):
    """Nor does a file of the algorithms that it is made of."""
    folder = root / "rsl_rl" / "algorithms"
    files, to_read = set(), ["ppo"]
    while to_read:
        path = folder / f"{to_read.pop()}.py"
        files.add(path)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("rsl_rl.algorithms."):
                module = node.module.rpartition(".")[2]
                to_read += [module] if folder / f"{module}.py" not in files else []
    assert {"ppo.py", "on_policy.py", "losses.py"} <= {path.name for path in files}
    for path in files:
        for question in ("is_recurrent", "device.type", ".is_cuda", "torch.cuda", "hasattr("):
            assert question not in path.read_text(), f"{path} asks for {question}"


def test_runners_know_the_type_of_their_environment(root):
    seen = 0
    for path in (root / "rsl_rl" / "runners").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.arg) and node.arg in ("env", "_env"):
                seen += 1
                hint = "Any" if node.annotation is None else ast.unparse(node.annotation)
                assert not re.search(r"\b(Any|object)\b", hint), f"{path}: line {node.lineno} annotates env as {hint}"
    assert seen >= 5


def test_runners_and_console_name_no_metric_of_an_algorithm(root):
    files = [*(root / "rsl_rl" / "runners").glob("*.py"), root / "rsl_rl" / "loggers" / "console.py"]
    assert len(files) > 10
    for path in files:
        named = re.findall(r"\b(surrogate_loss|value_loss|entropy|noise_std|kl)\b", path.read_text())
        assert named == [], f"{path} names {', '.join(named)}"


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        ("rsl_rl, rsl_rl.config.learn, rsl_rl.config.task, configs.go2_flat, rsl_rl.utils.config_io", "torch"),
        ("rsl_rl.env, rsl_rl.modules, rsl_rl.storage, rsl_rl.algorithms, rsl_rl.runners, rsl_rl.exporters", "mujoco"),
        ("rsl_rl.env, rsl_rl.runners, rsl_rl.tasks.legged_robot", "tensorboard"),
        ("rsl_rl.tasks.legged_robot, rsl_rl.tasks.toy", "mujoco"),
        ("rsl_rl.runners, rsl_rl.viz.video", "imageio"),
    ],
)
def test_nothing_is_imported_before_it_is_used(modules, absent, root):
    code = f"import sys, {modules}; sys.exit('{absent}' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0


PUBLIC = {
    "rsl_rl.env": "VecEnv StepResult as_vec_env check_vec_env",
    "rsl_rl.modules": "ActorCritic ActorCriticRecurrent SymmetricActorCritic SymmetricActorCriticRecurrent Memory "
    "RunningNorm",
    "rsl_rl.storage": "RolloutStorage RolloutBuffer Adder split_and_pad_trajectories unpad_trajectories",
    "rsl_rl.utils": "split_and_pad_trajectories unpad_trajectories",
    "rsl_rl.algorithms": "Algorithm PPO Distillation GRPO",
    "rsl_rl.extensions": "Extension RandomNetworkDistillation Symmetry",
    "rsl_rl.runners": "OnPolicyRunner DistillationRunner",
    "rsl_rl": "__version__",
}
"""What users import, by module."""


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_can_be_imported(module):
    exec(f"from {module} import {', '.join(PUBLIC[module].split())}", {})


def test_the_distribution_replaces_the_other_owner_of_the_import_name():
    assert version("rsl-rl-lib") == rsl_rl.__version__


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


def with_teacher(cfg, folder):
    """Return the config of a distillation with an untrained teacher in a folder; other configs as they are."""
    from rsl_rl.config.algorithm import DistillationConfig
    from rsl_rl.config.learn import LearnConfig
    from rsl_rl.runners import OnPolicyRunner

    if not isinstance(cfg.algorithm, DistillationConfig):
        return cfg
    groups = cfg.algorithm.teacher_groups
    policy = replace(cfg.algorithm.teacher, actor_groups=groups, critic_groups=groups)
    OnPolicyRunner(cfg.env.build(), LearnConfig(policy=policy)).save(folder / "model_1.pt")
    return replace(cfg, algorithm=replace(cfg.algorithm, teacher_run=str(folder)))


@pytest.mark.parametrize("name", EXPERIMENTS.names())
def test_configs_are_frozen_through_and_through_and_training_leaves_them_alone(name, tmp_path):
    from rsl_rl.runners import OnPolicyRunner
    from rsl_rl.utils.config_io import to_dict

    cfg = EXPERIMENTS.load(name)()
    for part in frozen_parts(cfg):
        with pytest.raises(FrozenInstanceError):
            setattr(part, fields(part)[0].name, None)
    cfg = with_teacher(replace(cfg, env=replace(cfg.env, num_envs=8)), tmp_path)
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
