"""The rules of the house, as tests: who may import whom, what loads without what, and that nothing is written to."""

import ast
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from importlib.metadata import version

import graphlib
import pytest
import torch

import rsl_rl
from benchmarks.weights import with_teacher
from configs import EXPERIMENTS
from rsl_rl.loggers import LOGGERS
from rsl_rl.robots import ROBOTS
from rsl_rl.sim import SIMS

LAYER = {
    "utils": 0,
    "config": 1, "distributed": 1,
    "modules": 2, "storage": 2, "loggers": 2, "robots": 2, "adoption": 2, "terrain": 2, "viz": 2,
    "env": 3, "acceleration": 3, "exporters": 3, "sim": 3,
    "motion": 4,
    "algorithms": 5, "tasks": 5,
    "extensions": 6,
    "runners": 7,
    "compat": 8, "evaluation": 8, "contracts": 8,
    "zoo": 9, "hardware": 9,
    "cli": 10,
}  # fmt: skip
SIMULATION = {"sim", "motion", "tasks", "robots", "adoption", "terrain", "viz"}
SHARED = {"env", "utils", "config"}  # the halves meet at env
SEES_BOTH = {"evaluation", "contracts", "hardware", "zoo", "cli"}


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
    """Only rsl_rl.compat does. Public names that have a facade there are looked up by one file, a command converts
    files, and docstrings may refer to it."""
    users = set()
    for path in (root / "rsl_rl").rglob("*.py"):
        here = path.relative_to(root / "rsl_rl")
        tree = ast.parse(path.read_text())
        imported = {name for folder in imported_folders(path) for name in [folder] if name == "compat"}
        texts = [
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        named = [text for text in texts if re.fullmatch(r"rsl_rl\.compat[\w.:]*", text)]
        if here.parts[0] != "compat" and (imported or named):
            users.add(here.as_posix())
    assert users == {"utils/public_names.py", "cli/convert_checkpoint.py"}


WITHOUT_COMPAT = """
import sys
sys.modules["rsl_rl.compat"] = None  # an import of it fails
from rsl_rl.cli.main import main
from rsl_rl.algorithms import GRPO, PPO, Distillation
from rsl_rl.modules import ActorCritic, ActorCriticRecurrent, Memory, SymmetricActorCritic
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.storage import RolloutStorage
assert OnPolicyRunner.__module__ == "rsl_rl.runners.runner" and PPO.__module__ == "rsl_rl.algorithms.ppo"
for task in ("toy", "recall", "target_sum"):
    log = ["--log_root", sys.argv[1], "--num_envs", "16"]
    assert main(["train", "--task", task, "--max_iterations", "2", "--logger", "none", *log]) in (0, None)
assert main(["evaluate", "--task", "toy", "--log_root", sys.argv[1], "--episodes", "16"]) in (0, None)
"""


def test_native_training_runs_without_compat(root, tmp_path):
    command = [sys.executable, "-c", WITHOUT_COMPAT, str(tmp_path)]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert sorted(path.name for path in tmp_path.glob("toy/*/model_*.pt")) == ["model_0.pt", "model_2.pt"]


NATIVE = {
    "Runner": "add_git_repo_to_log after_update alg build_algorithm collective collector current_learning_iteration "
    "device env env_corrections episodes_restored eval_mode export_policy_to_jit export_policy_to_onnx "
    "get_inference_policy learn load log_dir num_updates print_line ranks_of_checkpoint request_stop restore save "
    "save_to_log_dir stopped_by tot_time tot_timesteps train_cfg train_mode write",
    "PPO": "RANK_STATE acceleration act begin_rollout cfg collective compute_returns description device eval_mode "
    "extensions from_env get_hidden_states inference_policy join learner learning_rate load_state_dict "
    "normalizes_rollout obs_groups policy process_env_step progress reset restart_from restarts_episodes "
    "set_hidden_states state_dict storage train_mode transforms transition update",
    "GradientSteps": "acceleration backward add_gradients averages collective extensions inference_policy join "
    "learning_rate load_state_dict optimizer policy run skips_in_row state_dict step term_names transforms with_values",
    "RolloutStorage": "allocate batches begin_step clear columns device groups in_batches num_envs num_steps plan "
    "save_states saved_states shared step",
    "Transition": "columns groups",
    "MiniBatch": "columns envs groups hidden_states masks num_original original replace sample_mask with_columns",
    "ActorCritic": "act act_inference actor actor_model actor_obs_normalizer cache_weights cfg clear_cache "
    "config_class "
    "critic critic_model critic_obs_normalizer current_states distribution evaluate evaluate_rollout family "
    "get_hidden_states memories noise_std num_actor_obs observation_bounds parameter_groups reset set_hidden_states "
    "snapshot std update_distribution value_normalizer",
    "Model": "encode export_module groups has_statistics head image_encoders memory normalizer set_groups "
    "update_normalization vector_groups vectors",
}
"""Public attributes of the objects of a native training, besides those of torch.nn.Module and tuple."""


def test_native_objects_have_the_listed_public_attributes_only(small_cfg):
    from rsl_rl.config.task import ToyConfig
    from rsl_rl.runners.runner import Runner
    from rsl_rl.tasks.toy import PointEnv

    runner = Runner(PointEnv(ToyConfig(num_envs=4)), small_cfg)
    runner.learn(1)
    alg = runner.alg
    batch = alg.storage.batches.gather(torch.arange(4))
    objects = (runner, alg, alg.learner, alg.storage, alg.transition, batch, alg.policy, alg.policy.actor_model)
    assert [type(thing).__name__ for thing in objects] == list(NATIVE)
    inherited = {*dir(torch.nn.Module()), *dir(tuple)}
    for thing, names in zip(objects, NATIVE.values(), strict=True):
        kind = (torch.nn.Module, tuple)
        public = {name for name in dir(thing) if name[0] != "_"} - (inherited if isinstance(thing, kind) else set())
        assert public == set(names.split()), type(thing).__name__


def test_no_import_is_hidden_from_the_interpreter(root):
    """An import under TYPE_CHECKING can close a cycle unseen; nobody imports cli, whose --help imports no torch."""
    files = [path for path in (root / "rsl_rl").rglob("*.py") if "cli" not in path.relative_to(root).parts]
    hiding = [path.name for path in files if "TYPE_CHECKING" in path.read_text()]
    assert hiding == []


def test_ppo_does_not_ask_what_it_runs_on_or_with(root):
    """Nor does a file of the algorithms."""
    files = list((root / "rsl_rl" / "algorithms").glob("*.py"))
    assert {"ppo.py", "grpo.py", "losses.py"} <= {path.name for path in files}
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
        (
            "rsl_rl.env, rsl_rl.modules, rsl_rl.storage, rsl_rl.algorithms, rsl_rl.runners, rsl_rl.exporters, "
            "rsl_rl.tasks.legged_robot, rsl_rl.tasks.toy",
            "mujoco, tensorboard",
        ),
        ("rsl_rl.runners, rsl_rl.viz.video", "imageio"),
    ],
)
def test_nothing_is_imported_before_it_is_used(modules, absent, root):
    code = f"import sys, {modules}; sys.exit(any(name in sys.modules for name in '{absent}'.split(', ')))"
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
