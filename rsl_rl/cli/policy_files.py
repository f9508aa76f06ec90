"""Load policies of any program with their contracts, for the simulation."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np
import torch
from torch import Tensor

from rsl_rl.cli.contract import check_network, given_fields
from rsl_rl.cli.errors import fail
from rsl_rl.cli.experiments import import_shipped
from rsl_rl.cli.policy_flags import robot_file
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.contracts.contract import SENSED, Contract, Term, contract_json, plain_mapping
from rsl_rl.contracts.formats import read_draft
from rsl_rl.evaluation.conditions import ActingPolicy
from rsl_rl.evaluation.contract_policy import ContractPolicy, by_joint, for_contract
from rsl_rl.evaluation.export_parity import open_onnx_network
from rsl_rl.robots.robot import ROBOTS, Robot, read_joint_names
from rsl_rl.utils.config_io import from_dict
from rsl_rl.utils.text import one_line

ORDERED_AS_MODEL = ("unitree_rl_gym",)
"""Formats whose joints are in the order of the robot's model file."""


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
    robot: str = "",
) -> Dict[str, PolicyFile]:
    """Load policies for a robot, by a name of each; what does not fit is a ValueError that names the field.

    ``contracts`` are the files of the contracts, one for each policy or one for all; ``robot`` is a URDF or MJCF file
    in place of the robot of the task. What neither they nor ``settings`` say of joints and torques is taken from the
    robot, and a line says so. A policy that reads what no robot senses acts on the observation ``groups`` of the task,
    if they are its own.
    """
    if contracts and len(contracts) not in (1, len(paths)):
        raise ValueError(
            f"--contract names {len(contracts)} files for {len(paths)} policies; give one, or one for each"
        )
    if not isinstance(cfg, LeggedRobotConfig):
        raise ValueError("--policy needs a task with a legged robot; add --robot go2")
    given, files = given_fields(settings), {}
    own_file = robot_file(robot)
    known = known_robot(cfg) if own_file is None else known_robot_of_file(own_file)
    for i, path in enumerate(map(Path, paths)):
        if not path.is_file():
            raise FileNotFoundError(f"no file {path}")
        own = Path(contracts[i % len(contracts)]) if contracts else contract_file(path)
        contract = read_for_robot(own, given, known)
        name = path.stem if sum(Path(other).stem == path.stem for other in paths) == 1 else str(path)
        check_network(path, contract, own)
        task = cfg if known.source is None else task_of_file(cfg, known, contract)
        files[name] = load_policy_file(path, contract, task, groups)
    if len(files) < len(paths):
        raise ValueError("--policy names a file twice; name each once")
    return files


class KnownRobot(NamedTuple):
    """What a robot says that a contract may leave out."""

    name: str
    joint_names: Sequence[str]
    torque_limits: Mapping[str, float]  # by joint [N m]
    source: Any = None  # SourceModel of a file


def known_robot(cfg: LeggedRobotConfig) -> KnownRobot:
    """Return what the robot of a task says."""
    sim = replace(cfg, num_envs=1).build("cpu", seed=0).sim
    return KnownRobot(cfg.robot, sim.joint_names, dict(zip(sim.joint_names, sim.torque_limits.tolist())))


def known_robot_of_file(path: Path) -> KnownRobot:
    """Return what a URDF or MJCF file says."""
    from rsl_rl.adoption.policy_robot import hinges_of, read_robot, torque_limits_of

    source = read_robot(path)
    return KnownRobot(path.stem, hinges_of(source), torque_limits_of(source), source)


def task_of_file(cfg: LeggedRobotConfig, known: KnownRobot, contract: Contract) -> LeggedRobotConfig:
    """Return a task with the robot of a file, prepared for a policy; its terminations are those of its own links."""
    from rsl_rl.adoption.policy_robot import robot_for_policy

    folder = Path(tempfile.mkdtemp(prefix="rsl_rl_robot_"))
    atexit.register(shutil.rmtree, folder, True)
    name = f"{known.name} of {folder.name}"  # not that of a robot of ours
    file = folder / f"{known.name}.xml"
    prepared = robot_for_policy(known.source, contract.joint_names, contract.default_joint_pos, file)
    ROBOTS.add(name, Robot(**prepared.robot))
    held = f"; held at zero: {', '.join(prepared.locked)}" if prepared.locked else ""
    legs = f"{prepared.num_legs} legs, {prepared.mass:.1f} kg, {len(contract.joint_names)} joints"
    print(f"note: {known.source.path}: {legs}{held}; a fall is contact of {', '.join(prepared.contact_links)}")
    return replace(cfg, robot=name, terminations=replace(cfg.terminations, contact_links=prepared.contact_links))


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


def read_for_robot(path: Path, given: Mapping[str, Any], known: KnownRobot) -> Contract:
    """Read a contract; joints and torque limits that it lacks are those of the robot, which a line says.

    The order of joints in a file of a robot is that of the policy only for the formats that say so.
    """
    joints, taken = list(known.joint_names), []
    given = {"robot": known.name, **given}
    draft = read_draft(path, given)
    if "joint_names" in draft.missing and (known.source is None or draft.kind in ORDERED_AS_MODEL):
        draft = read_draft(path, {**given, "joint_names": joints})
        taken.append("joint_names")
    names = draft.values.get("joint_names")
    limits = known.torque_limits
    if "torque_limits" in draft.missing and isinstance(names, (list, tuple)) and set(map(str, names)) <= set(limits):
        draft = draft.with_values({"torque_limits": [limits[str(joint)] for joint in names]}, f"robot {known.name}")
        taken.append("torque_limits")
    contract = draft.contract()
    if taken:
        print(f"note: {path} does not say {' and '.join(taken)}; taken from the robot {known.name}")
    return contract


class BatchNetwork:
    """A network of N robots: observations [N, D] to actions [N, A]. A network that fails, or gives something else, ends
    the program with one line.

    An ONNX file takes one robot at a time, as exported files do; the memory of a TorchScript file is its own.
    """

    def __init__(self, path: Path, contract: Contract):
        self._path, self._num_actions = path, len(contract.joint_names)
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
        try:
            actions = self._actions(obs)
        except Exception as error:  # of any kind, from the network
            reason = one_line(str(error))[-200:]
            fail(f"{self._path}: the network does not take obs of {obs.shape[1]} numbers: {reason}")
        wanted = [len(obs), self._num_actions]
        if not isinstance(actions, Tensor) or list(actions.shape) != wanted or not actions.is_floating_point():
            is_tensor = isinstance(actions, Tensor)
            given = f"{list(actions.shape)} of {actions.dtype}" if is_tensor else type(actions).__name__
            fail(f"{self._path}: the network gives {given}; the joint_names of its contract need floats {wanted}")
        return actions

    def _actions(self, obs: Tensor) -> Any:
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


def reads_task(contract: Contract, cfg: LeggedRobotConfig, groups: Sequence[str]) -> bool:
    """Return whether a policy reads what no robot senses, and exactly the observation groups of a task."""
    if all(term.name in SENSED for term in contract.observations):
        return False
    env = replace(cfg, num_envs=1).build("cpu", seed=0)
    return list(contract.observations) == [
        from_dict(Term, term) for term in env.describe_interface(groups)["observations"]
    ]


def load_policy_file(
    path: Path, contract: Contract, cfg: LeggedRobotConfig, groups: Sequence[str] = ("policy",)
) -> PolicyFile:
    """Return a policy that acts in the simulation through its contract, or on the observations of its task."""
    network, deploy = load_network(path, contract), import_shipped("rsl_rl_deploy.onnx_policy")
    description = {**contract_json(contract), **plain_mapping(len(contract.joint_names))}
    if reads_task(contract, cfg, groups):
        _check_sizes(network, description)
        pose = by_joint(description, "default_joint_pos")
        own = replace(cfg, control=replace(cfg.control, default_joint_pos=pose))
        return PolicyFile(path, contract, own, TaskPolicy(network, groups))
    task, joint_names = for_contract(cfg, description), read_joint_names(ROBOTS.load(cfg.robot).model_path)
    deploy.Policy(description, network, joint_names)  # which says what a robot cannot run
    _check_sizes(network, description)
    acting = ContractPolicy(description, network, network.reset, joint_names)
    return PolicyFile(path, contract, task, acting)


@torch.no_grad()
def _check_sizes(network: BatchNetwork, description: Mapping[str, Any]) -> None:
    """End the program with a line if the network does not take and give what the contract says."""
    network(torch.zeros(1, description["inputs"]["obs"][1]))
