"""Export a trained policy in all formats, and compare each file with the policy."""

import hashlib
import io
import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

import numpy as np

from rsl_rl import __version__
from rsl_rl.cli.errors import program
from rsl_rl.cli.experiments import import_shipped
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.contracts.contract import contract_json, contract_of, nominal_observation, plain_mapping
from rsl_rl.env.vec_env import VecEnv
from rsl_rl.evaluation.c_policy import CPolicy
from rsl_rl.evaluation.conditions import for_evaluation
from rsl_rl.evaluation.export_parity import (
    ExportedPolicy,
    ParityResult,
    compare,
    describe_parity,
    open_onnx_network,
    open_torchscript,
    record_rollout,
    write_parity,
    write_trace,
)
from rsl_rl.exporters import describe_module, policy_module
from rsl_rl.exporters.c import export_c
from rsl_rl.runners.inference import InferencePolicy
from rsl_rl.runners.loading import LoadedPolicy
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.tasks.mdp.commands import Commands
from rsl_rl.utils.files import atomic_write
from rsl_rl.utils.git_state import commit_of

PARITY_SECONDS = 10.0
"""Length of the rollout of robots for the comparison of exported files [s]."""

PARITY_STEPS = 200
"""Length of the rollout of other environments [steps]."""

PARITY_ROBOTS = 4

ON_THE_ROBOT = ("onnx_policy.py", "robot_loop.py", "udp_driver.py", "policy_records.py", "excite.py")
"""Files of deploy/ that an export writes beside the policy."""


INT8 = "C with int8 weights"
"""Name of a format whose weights are rounded, so that it differs from the policy."""


def export(loaded: LoadedPolicy, cfg: Any, folder: Path, further: str = "none") -> bool:
    """Write the policy as TorchScript and ONNX, and as ``further``, c or c-int8, with its description and the file that
    runs it on a robot; return whether all formats are there and agree with the policy."""
    runner, groups = loaded.runner, loaded.runner.alg.policy.actor_model.groups
    env = build_parity_env(cfg)
    formats = {"TorchScript": runner.export_policy_to_jit(folder)}
    print(f"policy: {formats['TorchScript']} (TorchScript)")
    content = describe_policy(loaded, cfg, env)
    try:
        lasting = {name: value for name, value in content.items() if name != "provenance"}
        formats["ONNX"] = runner.export_policy_to_onnx(folder, metadata=lasting)  # equal weights give equal bytes
        print(f"policy: {formats['ONNX']} (ONNX)")
    except ImportError as error:
        print(f"no ONNX file: {error}; install the extra: pip install 'rsl-rl-lib[export]'")
    in_c = {"c": "C", "c-int8": INT8}.get(further, "")
    if in_c:
        try:
            formats[in_c] = export_c(runner.alg.inference_policy, folder / "policy.c", content, in_c == INT8)
            print(f"policy: {formats[in_c]} and policy.h (C99)")
        except ValueError as error:
            print(f"no C file: {error}")
    runs = import_shipped("rsl_rl_deploy.onnx_policy")
    if isinstance(env, LeggedRobot):
        network = formats.get("ONNX", formats["TorchScript"]).read_bytes()
        checksum = runs.network_sha256(network) if "ONNX" in formats else hashlib.sha256(network).hexdigest()
        content["network_sha256"] = checksum
    description = folder / "policy.json"
    atomic_write(description, (json.dumps(content, indent=2) + "\n").encode())
    print(f"policy: {description} (inputs, outputs, joint order, scales, gains)")
    if isinstance(env, LeggedRobot) and env.commands.clips:
        reference = Path(str(runs.__file__)).with_name("references.py")
        atomic_write(folder / reference.name, reference.read_bytes())
        print(f"references: {write_references(folder / 'references.npz', env.commands)} (the clips)")
    if isinstance(env, LeggedRobot):
        deploy = Path(str(runs.__file__)).parent
        if "style" in content["commands"]:
            atomic_write(folder / "styles.py", (deploy / "styles.py").read_bytes())
            print(f"styles: {folder / 'styles.py'} (tells the policy its style, and the clocks of the feet)")
        for name in ON_THE_ROBOT:
            atomic_write(folder / name, (deploy / name).read_bytes())
        print(f"runner: {folder / ON_THE_ROBOT[0]} (runs policy.onnx on a robot; needs numpy and onnxruntime)")
        print(f"loop: {folder / ON_THE_ROBOT[1]} (walks with it, with a watchdog; {ON_THE_ROBOT[2]} is a driver)")
    return check_parity(formats, loaded.policy, env, groups) and (not in_c or in_c in formats)


REFERENCE_TIME = 20.0
"""Time for which a file of references has a loop [s]."""


def write_references(path: Path, commands: Commands) -> Path:
    """Write the reference motions of a task at its control rate, for references.py."""
    arrays: Dict[str, Any] = {"clips": np.array(commands.clips, dtype=np.str_)}
    for i, frame in enumerate(commands.sequences(REFERENCE_TIME)):
        arrays[f"{i}.joint_pos"], arrays[f"{i}.joint_vel"] = (
            frame.joint_pos.cpu().numpy(),
            frame.joint_vel.cpu().numpy(),
        )
        arrays[f"{i}.base_pos"], arrays[f"{i}.base_quat"] = (
            x[:, 0].cpu().numpy() for x in (frame.link_pos, frame.link_quat)
        )
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    atomic_write(path, buffer.getvalue())
    return path


def describe_policy(loaded: LoadedPolicy, cfg: Any, env: VecEnv) -> Dict[str, Any]:
    """Return the contract of a policy of a robot as plain values; of another task inputs, outputs and observations."""
    module = describe_module(policy_module(loaded.runner.alg.inference_policy))
    groups = loaded.runner.alg.policy.actor_model.groups
    content = {"task": cfg.task, **module, **describe_interface(env, groups)}
    if not isinstance(env, LeggedRobot):
        return {**content, "format": 1}
    content["input_limits"]["observation"] = cfg.safety.max_observation  # of each number, after scaling
    return describe_robot_policy(content, loaded.checkpoint)


def describe_robot_policy(description: Mapping[str, Any], checkpoint: Path) -> Dict[str, Any]:
    """Return the contract of a policy of a robot as plain values; one that does not fit is a ValueError."""
    made_by = {
        "command": shlex.join([program().partition(" ")[0], *sys.argv[1:]]),
        "commit": commit_of(__file__),
        "version": __version__,
        "checkpoint": f"{checkpoint.parent.name}/{checkpoint.name}",
    }
    contract = {
        **plain_mapping(len(description["joint_names"])),
        **description,
        "format": 2,
        "memory": "inputs" if any(name.endswith("_in") for name in description["inputs"]) else "none",
        "nominal_observation": nominal_observation(description["observations"]),
        "provenance": made_by,
    }
    return contract_json(contract_of(contract))


def build_parity_env(cfg: Any) -> VecEnv:
    """Return a small environment of the task, without noise if it is a legged robot."""
    if not isinstance(cfg.env, LeggedRobotConfig):
        return replace(cfg.env, num_envs=PARITY_ROBOTS).build(cfg.sim_device, seed=cfg.seed)
    env_cfg = for_evaluation(cfg.env, PARITY_ROBOTS, PARITY_SECONDS)
    # Short episodes, so that robots that do not fall are reset too.
    env_cfg = replace(env_cfg, episode_length=max(PARITY_SECONDS / 3, env_cfg.sim.control_dt))
    return env_cfg.build(cfg.sim_device, seed=cfg.seed)


def describe_interface(env: VecEnv, groups: Sequence[str]) -> Dict[str, Any]:
    """Return the interface of a policy that reads these groups: of a robot the terms and joints, otherwise the shape
    of each group."""
    if isinstance(env, LeggedRobot):
        return env.describe_interface(groups)
    obs = env.get_observations()
    return {"observations": [{"group": group, "shape": list(obs[group].shape[1:])} for group in groups]}


def check_parity(formats: Mapping[str, Path], policy: InferencePolicy, env: VecEnv, groups: Sequence[str]) -> bool:
    """Compare the exported files with the policy over a rollout, print the differences and write parity.json; return
    whether all are within the tolerance, but those with rounded weights."""
    is_robot = isinstance(env, LeggedRobot)
    num_steps = round(PARITY_SECONDS / env.cfg.sim.control_dt) if isinstance(env, LeggedRobot) else PARITY_STEPS
    rollout = record_rollout(env, policy, groups, num_steps)
    results = {}
    for name, path in formats.items():
        try:
            exported, note = open_exported(path, rollout.joint_names if is_robot else None)
        except ImportError as error:
            print(f"parity: {name} is not checked: {error}")
            continue
        results[name] = compare(rollout, exported)
        describe = describe_rounding if name == INT8 else describe_parity
        print(f"parity: {describe(name, results[name])}{note}")
    folder = formats["TorchScript"].parent
    print(f"parity: {write_parity(folder / 'parity.json', rollout, results)} ({rollout.num_resets} resets)")
    if isinstance(env, LeggedRobot) and rollout.obs.shape[2]:
        control = env.cfg.control
        trace = write_trace(folder / "trace.npz", rollout, env.cfg.sim.control_dt, control.action_clip)
        print(f"trace: {trace} (python onnx_policy.py policy.onnx --check compares it on the robot)")
    return all(result.mismatch is None for name, result in results.items() if name != INT8)


def describe_rounding(name: str, result: ParityResult) -> str:
    """Return a line on the differences of a format whose weights are rounded."""
    targets = "" if result.joint_targets is None else f", joint targets by at most {result.joint_targets:.3g} rad"
    return f"{name}: actions differ from those of the policy by at most {result.actions:.3g}{targets}"


def open_exported(path: Path, joint_names: Optional[Sequence[str]]) -> Tuple[ExportedPolicy, str]:
    """Load an exported file; also return a note if the robot with these joints cannot run it.

    ``joint_names`` is None for a task without a robot. A missing package or compiler is an ImportError.
    """
    if joint_names is None:
        return ExportedPolicy(open_onnx_network(path) if path.suffix == ".onnx" else open_torchscript(path)), ""
    if path.suffix == ".c":
        in_c = CPolicy(path, json.loads(path.with_suffix(".json").read_text()), joint_names)
        return ExportedPolicy(in_c.network, in_c.restarted), ""
    deploy = import_shipped("rsl_rl_deploy.onnx_policy")
    if path.suffix == ".onnx":
        description, network = deploy.open_onnx(path)
    else:
        description, network = json.loads(path.with_suffix(".json").read_text()), open_torchscript(path)
    try:
        deploy.Policy(description, network, joint_names)
    except ValueError as error:
        return ExportedPolicy(network), f"; not for robots: {error}"
    return ExportedPolicy(network, lambda: deploy.Policy(description, network, joint_names)), ""
