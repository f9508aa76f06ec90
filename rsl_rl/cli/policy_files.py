"""Load policies of any program with their contracts, for the simulation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence

import numpy as np
import torch

from rsl_rl.cli.contract import given_fields
from rsl_rl.cli.experiments import import_shipped
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.contracts.contract import Contract, contract_json, plain_mapping
from rsl_rl.contracts.formats import read_draft
from rsl_rl.evaluation.controllers import ControlledRobots, RobotController, for_contract
from rsl_rl.evaluation.export_parity import Network, open_onnx_network
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.utils.registry import values_by_name


class PolicyFile(NamedTuple):
    """A policy with its contract, ready to act in the simulation."""

    path: Path
    contract: Contract
    task: LeggedRobotConfig
    acting: ControlledRobots


def load_policy_files(
    paths: Sequence[str], contracts: Sequence[str], settings: Sequence[str], cfg: LeggedRobotConfig
) -> Dict[str, PolicyFile]:
    """Load policies for a robot, by a name of each; what does not fit is a ValueError that names the field.

    ``contracts`` are the files of the contracts, one for each policy or one for all. What neither they nor ``settings``
    say of joints and torques is taken from the robot, and a line says so.
    """
    if contracts and len(contracts) not in (1, len(paths)):
        raise ValueError(
            f"--contract names {len(contracts)} files for {len(paths)} policies; give one, or one for each"
        )
    if not isinstance(cfg, LeggedRobotConfig):
        raise ValueError("--policy needs a task with a legged robot; add --robot go2")
    given, files = given_fields(settings), {}
    env = replace(cfg, num_envs=1).build("cpu", seed=0)
    for i, path in enumerate(map(Path, paths)):
        if not path.is_file():
            raise FileNotFoundError(f"no file {path}")
        own = Path(contracts[i % len(contracts)]) if contracts else contract_file(path)
        contract = read_for_robot(own, given, env)
        name = path.stem if sum(Path(other).stem == path.stem for other in paths) == 1 else str(path)
        files[name] = load_policy_file(path, contract, env)
    if len(files) < len(paths):
        raise ValueError("--policy names a file twice; name each once")
    return files


def contract_file(path: Path) -> Path:
    """Return the file of a policy's contract: the policy itself, or policy.json or deploy.yaml of its folder."""
    folder = path.parent
    beside = (
        path.with_suffix(".json"),
        *(folder / name for name in ("policy.json", "deploy.yaml")),
        folder.parent / "params" / "deploy.yaml",
    )
    found = [own for own in beside if own.is_file()]
    if path.suffix == ".onnx":
        from rsl_rl.contracts.onnx_file import read_metadata

        if {"observations", "observation_names"} & set(read_metadata(path)):
            return path
    if not found:
        raise ValueError(f"{path} has no contract in it or beside it; give --contract FILE, see rsl-rl contract --help")
    return found[0]


def read_for_robot(path: Path, given: Mapping[str, Any], env: LeggedRobot) -> Contract:
    """Read a contract; joints and torque limits that it lacks are those of the simulated robot, which a line says."""
    name, joints, taken = env.cfg.robot, list(env.sim.joint_names), []
    given = {"robot": name, **given}
    draft = read_draft(path, given)
    if "joint_names" in draft.missing:
        draft = read_draft(path, {**given, "joint_names": joints})
        taken.append("joint_names")
    names = draft.values.get("joint_names")
    if "torque_limits" in draft.missing and isinstance(names, (list, tuple)) and set(map(str, names)) <= set(joints):
        limits = dict(zip(joints, env.sim.torque_limits.tolist()))
        draft = draft.with_values({"torque_limits": [limits[str(joint)] for joint in names]}, f"robot {name}")
        taken.append("torque_limits")
    contract = draft.contract()
    if taken:
        print(f"note: {path} does not say {' and '.join(taken)}; taken from the robot {name}")
    return contract


class LoadedNetwork(NamedTuple):
    """A network of one robot."""

    run: Network
    reset: Callable[[], None]  # its internal memory
    inputs: Dict[str, List[int]]  # shapes of the recurrent states by name
    has_memory: bool  # of its own


def load_network(path: Path) -> LoadedNetwork:
    """Load an ONNX or TorchScript file; damage is a ValueError."""
    try:
        return _load_onnx(path) if path.suffix == ".onnx" else _load_torchscript(path)
    except ImportError:
        raise
    except Exception as error:  # of any kind, from damaged files
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} is neither an ONNX nor a TorchScript network: {reason}") from error


def _load_onnx(path: Path) -> LoadedNetwork:
    network = open_onnx_network(path)
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    states = {x.name: [size if isinstance(size, int) else 1 for size in x.shape] for x in session.get_inputs()[1:]}
    return LoadedNetwork(network, lambda: None, states, has_memory=False)


def _load_torchscript(path: Path) -> LoadedNetwork:
    module = torch.jit.load(str(path), map_location="cpu").eval()
    states = {name: buffer for name, buffer in module.named_buffers() if name in ("hidden_state", "cell_state")}

    def reset() -> None:
        for state in states.values():
            state.zero_()

    def run(*inputs: np.ndarray) -> List[np.ndarray]:
        with torch.no_grad():
            out = module(*map(torch.from_numpy, inputs))
        return [x.numpy() for x in (out if isinstance(out, tuple) else (out,))]

    return LoadedNetwork(run, reset, {}, has_memory=bool(states))


def load_policy_file(path: Path, contract: Contract, env: LeggedRobot) -> PolicyFile:
    """Return a policy that acts in the simulation through its contract."""
    network, deploy = load_network(path), import_shipped("rsl_rl_deploy.onnx_policy")
    states = {name: shape for name, shape in contract.inputs.items() if name != "obs"} or network.inputs
    description = {
        **contract_json(contract),
        **plain_mapping(len(contract.joint_names)),  # the simulation reads and moves as the policy does
        "inputs": {"obs": list(contract.inputs["obs"]), **states},
    }
    _check_sizes(network.run, description)

    def make() -> RobotController:
        own = load_network(path) if network.has_memory else network
        policy = deploy.Policy(description, own.run, env.sim.joint_names)

        def reset() -> None:
            policy.reset()
            own.reset()

        return RobotController(policy, reset)

    make()  # so that errors occur before the evaluation
    task = for_contract(env.cfg, description)
    scale = values_by_name(task.control.action_scale, env.sim.joint_names, "action_scale")
    acting = ControlledRobots(make, env.robot.default_joint_pos, torch.tensor(scale))
    return PolicyFile(path, contract, task, acting)


def _check_sizes(network: Network, description: Mapping[str, Any]) -> None:
    """Raise a ValueError if the network does not take and give what the contract says."""
    inputs = [np.zeros(shape, np.float32) for shape in description["inputs"].values()]
    wanted = {name: list(shape) for name, shape in description["inputs"].items()}
    try:
        actions = list(network(*inputs)[0].shape)
    except Exception as error:  # of any kind, from the network
        raise ValueError(
            f"inputs={wanted}: the network does not take them: {' '.join(str(error).split())[-200:]}"
        ) from error
    if actions != [1, len(description["joint_names"])]:
        raise ValueError(f"joint_names has {len(description['joint_names'])} joints, and the network gives {actions}")
