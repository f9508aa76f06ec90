"""What happened to a robot that broke in training: physics repeats its last control steps."""

from __future__ import annotations

import io
import math
import re
import zipfile
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Tuple

import torch
from torch import Tensor

from rsl_rl.config.task import LeggedRobotConfig, TaskConfig
from rsl_rl.robots import ROBOTS
from rsl_rl.sim.base import Sim
from rsl_rl.sim.selection import make_sim
from rsl_rl.tasks.faults import broken_state
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.registry import suggest

_FORMAT = 1
"""Version of the file's layout that is understood here."""

_ROUNDING = 1e-6
"""Largest difference between two states that may come of another processor's arithmetic."""

_FIELDS = {"cause": str, "term": str, "environment": int, "iteration": int, "step": int}

SECTIONS = {"reward_term": "rewards", "observation_term": "observations"}
"""Causes that are no matter of physics, and the values that tell of them."""


class Case(NamedTuple):
    """A post-mortem as the file has it: K control steps of one robot, the oldest first."""

    cause: str
    term: str
    environment: int
    iteration: int
    step: int  # of the iteration's rollout
    states: Tensor  # [K, S] before each step
    targets: Tensor  # [K, J] of the joints [rad]
    parameters: Dict[str, Tensor]  # what Sim.parameters_of gave
    values: Dict[str, Any]  # numbers by name that tell of the cause: rewards, observations or none


class Repetition(NamedTuple):
    """What physics makes of the K steps of a case, each from the state recorded, in D physics steps each.

    Where the engine gives up it starts the robot anew: what follows within that step is not what happened, and
    ``lost``.
    """

    model_path: Path
    joint_names: Tuple[str, ...]
    dt: float  # physics step [s]
    reached: Tensor  # [K, S] after each step
    diverged: Tensor  # [K] bool: the engine gave up
    broken: Tensor  # [K] bool: diverged, or the state reached is not finite or absurdly fast
    differences: Tensor  # [K - 1] largest one between the state reached and that recorded before the next step
    pose: Tensor  # [K, 1 + D, 7 + J] root position [m], quaternion, joint angles [rad], where a step begins and after
    root_speed: Tensor  # [K, 1 + D] [m/s]              each of its physics steps
    joint_vel: Tensor  # [K, 1 + D, J] [rad/s]
    lost: Tensor  # [K, 1 + D] bool

    @property
    def control_dt(self) -> float:
        """Control period [s]."""
        return self.dt * (self.lost.shape[1] - 1)

    @property
    def touched(self) -> List[int]:
        """Steps after which something else moved the robot, such as a push or a reset."""
        return (self.differences > _ROUNDING).nonzero().flatten().tolist()


def find_case(run: Path, name: str) -> Path:
    """Return the file of a post-mortem: a path, or a name in the run's postmortem/, with or without its ending;
    anything else is a ValueError that lists what is there."""
    folder, stem = run / "postmortem", re.sub(r"\.(pt|json)$", "", name)
    for path in (Path(name), *(place / f"{stem}.pt" for place in (Path(), folder, run))):
        if path.is_file() and path.suffix != ".json":
            _require_own(path.resolve(), run.resolve())
            return path
    known = sorted(path.stem for path in folder.glob("*.pt"))
    if not known:
        raise ValueError(f"there is no post-mortem '{name}', and {run} has none: no robot broke there")
    raise ValueError(f"there is no post-mortem '{name}'; {folder} has {', '.join(known)}.{suggest(stem, known)}")


def _require_own(path: Path, run: Path) -> None:
    """Refuse the post-mortem of another run, whose physics may differ."""
    owner = path.parent.parent
    if path.parent.name == "postmortem" and owner != run and (owner / "config.yaml").is_file():
        raise ValueError(f"{path} is of another run than {run}; add --load_run {owner}")


def load_case(path: Path, cfg: TaskConfig) -> Case:
    """Read a post-mortem of the task's robot without executing anything in it; anything else is a ValueError."""
    content = _read(path)
    env = content["env"]
    if env is None or not isinstance(cfg, LeggedRobotConfig):
        reason = "the task has none, or only the learner found fault"
        raise ValueError(f"{path} has no physics to repeat: {reason}; read {path.stem}.json")
    if env.get("robot") != cfg.robot:
        raise ValueError(f"{path} is of the robot '{env.get('robot')}' and the task's is '{cfg.robot}'; correct --task")
    physics, values = env.get("physics"), env.get(SECTIONS.get(content["cause"], ""), {})
    try:
        states, targets, parameters = (physics[name] for name in ("states", "targets", "parameters"))
        whole = states.is_floating_point() and targets.is_floating_point() and states.dim() == targets.dim() == 2
        whole = whole and len(states) == len(targets) > 0
        whole = whole and all(isinstance(value, Tensor) for value in parameters.values()) and isinstance(values, dict)
    except (TypeError, KeyError, AttributeError):
        whole = False
    if not whole:
        raise ValueError(f"{path} is damaged: its physics are not states, targets and parameters; take another")
    return Case(
        **{name: content[name] for name in _FIELDS},
        states=states,
        targets=targets,
        parameters=parameters,
        values=values,
    )


def _read(path: Path) -> Dict[str, Any]:
    packed = path.read_bytes()
    try:
        if zipfile.ZipFile(io.BytesIO(packed)).testzip() is not None:
            raise ValueError("a checksum is wrong")
        content = torch.load(io.BytesIO(packed), map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can make the reader stumble over anything
        reason = " ".join(str(error).split())[:160]
        raise ValueError(f"{path} is damaged or no post-mortem ({reason}); take another") from error
    fields = {"format": int, **_FIELDS, "env": (dict, type(None))}
    if not isinstance(content, dict) or not all(isinstance(content.get(name, ...), fields[name]) for name in fields):
        raise ValueError(f"{path} is no post-mortem: it lacks some of {', '.join(fields)}")
    if content["format"] != _FORMAT:
        raise ValueError(f"{path} has format {content['format']}, and this version reads {_FORMAT}; update rsl-rl-lib")
    return content


def repeat(case: Case, cfg: LeggedRobotConfig, device: str = "cpu") -> Repetition:
    """Repeat every step of a case at once, with the physics of the task."""
    robot = ROBOTS.load(cfg.robot)
    sim = make_sim(robot.model_path, len(case.states), cfg.sim, device)
    state = RobotState(sim, torch.tensor(robot.default_joint_pos, device=sim.device), cfg.sim.control_dt)
    targets = case.targets.to(sim.device)
    _restore(sim, case)
    tracks: Dict[str, List[Tensor]] = {"pose": [], "root_speed": [], "joint_vel": [], "lost": []}
    lost = torch.zeros(sim.num_envs, dtype=torch.bool, device=sim.device)
    for i in range(1 + cfg.sim.decimation):
        if i > 0:
            sim.step(targets, 1)
            lost = lost | sim.diverged
        tracks["pose"].append(torch.cat((sim.root_pos, sim.root_quat, sim.joint_pos), dim=1))
        tracks["root_speed"].append(sim.root_lin_vel.norm(dim=1))
        tracks["joint_vel"].append(sim.joint_vel.clone())
        tracks["lost"].append(lost)
    too_fast = broken_state(state, cfg.terminations)
    reached = sim.physics_state().cpu()
    return Repetition(
        model_path=robot.model_path,
        joint_names=sim.joint_names,
        dt=cfg.sim.dt,
        reached=reached,
        diverged=lost.cpu(),
        broken=(lost | too_fast).cpu(),
        differences=_differences(reached[:-1], case.states[1:]),
        **{name: torch.stack(track, dim=1).cpu() for name, track in tracks.items()},
    )


def _restore(sim: Sim, case: Case) -> None:
    """Give every world the robot's parameters, and each the state in which one of the steps began."""
    joints = [len(sim.joint_names)]
    shapes = {"friction": [], "payload": [], "stiffness": joints, "damping": joints}
    got = {name: list(value.shape) for name, value in case.parameters.items()}
    sizes, own = [case.states.shape[1], case.targets.shape[1]], [sim.physics_state().shape[1], *joints]
    known = all(name in shapes and shapes[name] == shape for name, shape in got.items())
    if sizes != own or not known or ("stiffness" in got) != ("damping" in got):
        raise ValueError(
            f"the post-mortem has states and targets of {sizes} numbers and the parameters {got}, and this physics has "
            f"{own} and {shapes}; take the model and the engine that the run was trained with"
        )
    sim.set_parameters({name: value.expand(sim.num_envs, *value.shape) for name, value in case.parameters.items()})
    sim.set_physics_state(case.states.to(sim.device))


def _differences(reached: Tensor, recorded: Tensor) -> Tensor:
    """Return the largest difference in each row; two numbers that are not finite are no different."""
    broken = ~torch.isfinite(reached) & ~torch.isfinite(recorded)
    return (reached - recorded).masked_fill(broken, 0.0).abs().nan_to_num(math.inf, math.inf).amax(dim=1)


def verdict(case: Case, repetition: Repetition) -> str:
    """Say in a line whether physics repeats what happened."""
    blamed = f"the cause is the term {case.term}"
    if repetition.broken[-1]:
        line = "physics repeats the breakdown"
        if case.cause in SECTIONS:
            line = f"physics breaks here, which it did not in training, where {blamed}"
    elif case.cause in SECTIONS:
        line = f"physics does not break here: {blamed}"
    else:
        line = "physics does not break here, which it did in training: its settings, the engine or the model are others"
    return f"{line}; {_agreement(repetition)}"


def _agreement(repetition: Repetition) -> str:
    """Say how well the recorded states are met."""
    differences, touched = repetition.differences, repetition.touched
    if not len(differences):
        return "one step is all there is"
    line = f"the largest difference from a recorded state is {float(differences.max()):.2g}"
    if not touched:
        return line
    if len(touched) == len(differences) > 2:
        return f"{line}, and no state is met: the run's physics were others"
    times = ", ".join(f"{(len(differences) - k) * repetition.control_dt:.3f} s" for k in touched)
    return f"{line}: {times} before the end, something else moved the robot, such as a push or a reset"
