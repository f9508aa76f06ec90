"""Step HumanoidAMP of a checkout of ASE, unmodified, with its own gains, and measure what its DoFs do.

    python gymapi-mujoco/checks/ase.py PATH_OF_ASE

The task class, configuration, robot and motion are those of nv-tlabs/ASE 28952a3; it needs termcolor and gym. The exit
status is the number of quantities outside their ranges.
"""

# pyright: reportMissingImports=false, reportMissingModuleSource=false
from __future__ import annotations

import argparse
import math
import os
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any, List, Tuple

import torch
from torch import Tensor

PACKAGE = Path(__file__).resolve().parents[1]
NUM_ENVS = 4
ROBOT, MOTION = "ase/data/assets/mjcf/amp_humanoid.xml", "ase/data/motions/amp_humanoid_walk.npy"
STEP = -0.5
"""Change of the elbows' targets [rad]."""

Row = Tuple[str, str, Tuple[float, float], float]


def make(checkout: Path) -> Any:
    """Build the task by its own configuration; each episode starts at the beginning of the walk."""
    sys.path[:0] = [str(PACKAGE / "gymapi_mujoco" / "modules"), str(PACKAGE), str(checkout / "ase")]
    os.chdir(checkout)  # its files have paths relative to its root
    sys.argv[1:] = ["--task", "HumanoidAMP", "--headless", "--num_envs", str(NUM_ENVS), "--motion_file", MOTION]
    sys.argv += ["--cfg_env", "ase/data/cfg/humanoid.yaml", "--cfg_train", "ase/data/cfg/train/rlg/amp_humanoid.yaml"]
    sys.argv += ["--sim_device", "cpu", "--rl_device", "cpu", "--pipeline", "cpu"]
    from utils.config import get_args, load_cfg, parse_sim_params
    from utils.parse_task import parse_task

    args = get_args()
    cfg, cfg_train, _ = load_cfg(args)
    cfg["env"].update(motion_file=args.motion_file, stateInit="Start")
    return parse_task(args, cfg, cfg_train, parse_sim_params(args, cfg, cfg_train))[0]


class Humanoid:
    """The task, stepped by targets of its DoFs."""

    def __init__(self, task: Any):
        from isaacgym import gymtorch

        self.task, self.gym, self.wrap, self.unwrap = task, task.gym, gymtorch.wrap_tensor, gymtorch.unwrap_tensor
        actor = (task.envs[0], task.humanoid_handles[0])
        self.names: List[str] = self.gym.get_actor_dof_names(*actor)
        self.props = self.gym.get_actor_dof_properties(*actor)
        self.force = self.wrap(self.gym.acquire_dof_force_tensor(task.sim)).view(NUM_ENVS, -1)
        self.stiffness, self.damping = (torch.tensor(self.props[key].copy()) for key in ("stiffness", "damping"))

    def motion(self, time: float) -> Any:
        """Return the walk at a time: position of the root, its orientation, positions of the DoFs, and others."""
        return self.task._motion_lib.get_motion_state(
            torch.zeros(NUM_ENVS, dtype=torch.long), torch.full((NUM_ENVS,), time)
        )

    def start(self) -> Tensor:
        """Put the robots at the beginning of the walk; return the positions of their DoFs [N, DoFs]."""
        self.task.reset()
        return self.motion(0.0)[2].clone()

    def step(self, target: Tensor, seconds: float) -> None:
        """Step with targets [N, DoFs] for a time; a control step lasts 1/30 s."""
        for _ in range(round(seconds / self.task.dt)):
            self.task.step((target - self.task._pd_action_offset) / self.task._pd_action_scale)
        assert torch.isfinite(self.task.obs_buf).all(), "an observation is not finite"


def gains(own: Humanoid) -> Row:
    joints = {joint.get("name"): joint for joint in ElementTree.parse(ROBOT).iter("joint")}
    far = max(
        abs(float(joints[name].get(key) or 0.0) - own.props[key][i])
        for key in ("stiffness", "damping")
        for i, name in enumerate(own.names)
    )
    return "gains from those of its MJCF file, at most", "N m/rad, N m s/rad", (0.0, 1e-3), float(far)


def pose(own: Humanoid) -> List[Row]:
    target = own.start()
    own.step(target, 0.5)
    error = target - own.task._dof_pos
    own.gym.refresh_dof_force_tensor(own.task.sim)
    by_gains = own.stiffness * error - own.damping * own.task._dof_vel
    ratio = float((own.force * by_gains).sum() / by_gains.square().sum())
    mean = float(error.abs().mean())
    return [
        ("error of the DoFs after 0.5 s in the first pose of the walk, mean", "rad", (0.0, 0.03), mean),
        ("measured DoF forces over stiffness x error - damping x velocity", "1", (0.99, 1.01), ratio),
    ]


def elbows(own: Humanoid) -> Row:
    """In free fall the elbows go to new targets with the time constant damping / stiffness, as long as they have little
    inertia."""
    target, task = own.start(), own.task
    task._root_states[:, 2] += 20.0
    task._root_states[:, 7:] = 0.0
    task._dof_vel[:] = 0.0
    own.gym.set_actor_root_state_tensor(task.sim, own.unwrap(task._root_states))
    own.gym.set_dof_state_tensor(task.sim, own.unwrap(task._dof_state))
    own.step(target, 0.3)
    ids = [own.names.index(name) for name in ("right_elbow", "left_elbow")]
    before = task._dof_pos[:, ids].clone()
    target[:, ids] += STEP
    own.step(target, 0.1)
    expected = STEP * (1 - math.exp(-0.1 * float((own.stiffness / own.damping)[ids[0]])))
    moved = float((task._dof_pos[:, ids] - before).mean())
    text = "movement of the elbows 0.1 s after a step of their targets over that of the gains"
    return text, "1", (0.9, 1.1), moved / expected


def walk(own: Humanoid) -> List[Row]:
    """Take the walk's DoFs as targets, without any balance."""
    own.start()
    forward, errors = own.task._root_states[:, 0].clone(), []
    for i in range(30):
        target = own.motion((i + 1) * own.task.dt)[2]
        own.step(target, own.task.dt)
        errors.append(float((own.task._dof_pos - target).abs().mean()))
    roots = own.task._root_states
    return [
        ("error of the DoFs in 1 s with the walk as targets, mean", "rad", (0.0, 0.1), sum(errors) / len(errors)),
        ("height of the root after it; the walk's is 0.87", "m", (0.8, 0.95), float(roots[:, 2].mean())),
        ("way of the root in it; the walk's is 0.98", "m", (0.3, 1.2), float((roots[:, 0] - forward).mean())),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="folder of a clone of ASE")
    checkout = parser.parse_args().checkout.absolute()
    if not (checkout / "ase").is_dir():
        parser.error(f"{checkout} has no folder ase")
    own = Humanoid(make(checkout))
    with torch.no_grad():
        rows = [gains(own), *pose(own), elbows(own), *walk(own)]
    print("| quantity | unit | range | got | within |\n|---|---|---|---|---|")
    for text, unit, (low, high), got in rows:
        verdict = "yes" if low <= got <= high else "**no**"
        print(f"| {text} | {unit} | {low:g} to {high:g} | {got:.3g} | {verdict} |")
    return sum(not low <= got <= high for _, _, (low, high), got in rows)


if __name__ == "__main__":
    sys.exit(main())
