"""Load policies of any program with their contracts, for the simulation."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np
import torch
from torch import Tensor

from rsl_rl.cli.contract import given_fields
from rsl_rl.cli.experiments import import_shipped
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.contracts.contract import SENSED, Contract, Term, contract_json, plain_mapping
from rsl_rl.contracts.formats import read_draft
from rsl_rl.evaluation.conditions import ActingPolicy
from rsl_rl.evaluation.contract_policy import ContractPolicy, for_contract
from rsl_rl.evaluation.export_parity import open_onnx_network
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.utils.config_io import from_dict


class PolicyFile(NamedTuple):
    """A policy with its contract, ready to act in the simulation."""

    path: Path
    contract: Contract
    task: LeggedRobotConfig
    acting: ActingPolicy


def load_policy_files(
    paths: Sequence[str],
    contracts: Sequence[str],
    settings: Sequence[str],
    cfg: LeggedRobotConfig,
    groups: Sequence[str] = ("policy",),
) -> Dict[str, PolicyFile]:
    """Load policies for a robot, by a name of each; what does not fit is a ValueError that names the field.

    A policy that reads what no robot senses acts on the observation ``groups`` of this task, if they are its own.

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
        check_network(path, contract, own)
        files[name] = load_policy_file(path, contract, env, groups)
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


def check_network(path: Path, contract: Contract, where: Path) -> None:
    """Raise a ValueError if the contract in the file ``where`` names another network.

    A TorchScript file that was exported with an ONNX file shares its contract.
    """

    def checksum(file: Path) -> str:
        content = file.read_bytes()
        if file.suffix != ".onnx":
            return hashlib.sha256(content).hexdigest()
        return import_shipped("rsl_rl_deploy.onnx_policy").network_sha256(content)

    files = {path, path.with_suffix(".onnx")}
    if contract.network_sha256 and contract.network_sha256 not in [checksum(file) for file in files if file.is_file()]:
        raise ValueError(
            f"{where} describes another network: its network_sha256 is not that of {path}; give --contract"
        )


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


class BatchNetwork:
    """A network of N robots: observations [N, D] to actions [N, A].

    An ONNX file takes one robot at a time, as exported files do; the memory of a TorchScript file is its own.
    """

    def __init__(self, path: Path, contract: Contract):
        self.states: Dict[str, List[int]] = {}  # shapes of recurrent inputs by name
        self._memories: Dict[int, List[np.ndarray]] = {}  # of each robot, for recurrent inputs
        self._module: Any = None
        if path.suffix == ".onnx":
            self._run = open_onnx_network(path)
            self.states = {name: list(shape) for name, shape in contract.inputs.items() if name != "obs"}
        else:
            self._module = torch.jit.load(str(path), map_location="cpu").eval()
        names = ("hidden_state", "cell_state")
        own = {} if self._module is None else dict(self._module.named_buffers())
        self.own_memory = {name: own[name] for name in names if name in own}  # each [L, 1, H]

    def __call__(self, obs: Tensor) -> Tensor:
        if self._module is not None:
            for name, state in self.own_memory.items():
                if getattr(self._module, name).shape[1] != len(obs):
                    setattr(self._module, name, state.new_zeros(state.shape[0], len(obs), state.shape[2]))
            return self._module(obs)
        actions = []
        for robot, row in enumerate(obs.numpy()):
            before = self._memories.get(robot) or [np.zeros(shape, np.float32) for shape in self.states.values()]
            action, *after = self._run(row[None], *before)
            self._memories[robot] = after
            actions.append(action[0])
        return torch.from_numpy(np.stack(actions))

    def reset(self, marked: Optional[Tensor]) -> None:
        """Clear the memory of the robots marked in a mask [N], or of all for None."""
        if marked is None:
            self._memories.clear()
        else:
            for robot in marked.nonzero()[:, 0].tolist():
                self._memories.pop(robot, None)
        for name in self.own_memory:
            state = getattr(self._module, name)
            state[:, slice(None) if marked is None else marked] = 0.0


def load_network(path: Path, contract: Contract) -> BatchNetwork:
    """Load an ONNX or TorchScript file; damage is a ValueError."""
    try:
        return BatchNetwork(path, contract)
    except ImportError:
        raise
    except Exception as error:  # of any kind, from damaged files
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} is neither an ONNX nor a TorchScript network: {reason}") from error


class TaskPolicy:
    """A policy that reads the observations of the task itself, such as a height scan."""

    def __init__(self, network: BatchNetwork, groups: Sequence[str]):
        self._network, self._groups = network, tuple(groups)

    @torch.no_grad()
    def __call__(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Return the actions [N, A] for the observation groups, each [N, D]."""
        joined = torch.cat([obs[group] for group in self._groups], dim=1)
        return self._network(joined.cpu()).to(joined.device)

    def reset(self, dones: Optional[Tensor] = None) -> None:
        """Clear the memory of the robots marked in dones [N]; of all for None."""
        self._network.reset(None if dones is None else dones.cpu())


def reads_task(contract: Contract, env: LeggedRobot, groups: Sequence[str]) -> bool:
    """Return whether a policy reads what no robot senses, and exactly the observation groups of a task."""
    own = [from_dict(Term, term) for term in env.describe_interface(groups)["observations"]]
    return list(contract.observations) == own and any(term.name not in SENSED for term in own)


def load_policy_file(
    path: Path, contract: Contract, env: LeggedRobot, groups: Sequence[str] = ("policy",)
) -> PolicyFile:
    """Return a policy that acts in the simulation through its contract, or on the observations of its task."""
    network, deploy = load_network(path, contract), import_shipped("rsl_rl_deploy.onnx_policy")
    description = {**contract_json(contract), **plain_mapping(len(contract.joint_names))}
    if reads_task(contract, env, groups):
        _check_sizes(network, description)
        return PolicyFile(path, contract, env.cfg, TaskPolicy(network, groups))
    deploy.Policy(description, network, env.sim.joint_names)  # which says what a robot cannot run
    _check_sizes(network, description)
    default = env.robot.default_joint_pos
    acting = ContractPolicy(description, network, network.reset, env.sim.joint_names, default)
    return PolicyFile(path, contract, for_contract(env.cfg, description), acting)


def _check_sizes(network: BatchNetwork, description: Mapping[str, Any]) -> None:
    """Raise a ValueError if the network does not take and give what the contract says."""
    size, joints = description["inputs"]["obs"][1], len(description["joint_names"])
    try:
        with torch.no_grad():
            actions = list(network(torch.zeros(1, size)).shape)
    except Exception as error:  # of any kind, from the network
        reason = " ".join(str(error).split())[-200:]
        raise ValueError(f"inputs: the network does not take obs of {size} numbers: {reason}") from error
    if actions != [1, joints]:
        raise ValueError(f"joint_names has {joints} joints, and the network gives {actions}")
