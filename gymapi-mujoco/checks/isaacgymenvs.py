"""Step tasks of a checkout of IsaacGymEnvs, unmodified, and measure a physical quantity of each.

    python gymapi-mujoco/checks/isaacgymenvs.py PATH_OF_ISAACGYMENVS            # all tasks
    python gymapi-mujoco/checks/isaacgymenvs.py PATH_OF_ISAACGYMENVS Ant Anymal

The task classes and configurations are those of isaac-sim/IsaacGymEnvs aeed298; it needs hydra-core, omegaconf, gym and
rl_games. Each task runs in a process of its own with 4 environments. The exit status is the number of tasks that do
not step or whose quantity is outside its range.
"""

# pyright: reportMissingImports=false, reportMissingModuleSource=false, reportCallIssue=false
from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import types
from pathlib import Path
from typing import Any, Callable, Dict, NamedTuple, Tuple

import torch

PACKAGE = Path(__file__).resolve().parents[1]
NUM_ENVS, SECONDS = 4, 400


class Stepper:
    """A task, with its tensors by actor."""

    def __init__(self, task: Any):
        import isaacgym.gymtorch as gymtorch

        self.task, self.gym, self.sim = task, task.gym, task.sim
        wrap = gymtorch.wrap_tensor
        self.env = self.gym.get_env(self.sim, 0)
        self.actors = self.gym.get_actor_count(self.env)
        self.roots = wrap(self.gym.acquire_actor_root_state_tensor(self.sim)).view(NUM_ENVS, -1, 13)
        dofs = wrap(self.gym.acquire_dof_state_tensor(self.sim))
        self.dofs = torch.zeros(NUM_ENVS, 0, 2) if dofs is None else dofs.view(NUM_ENVS, -1, 2)
        self.bodies = wrap(self.gym.acquire_rigid_body_state_tensor(self.sim)).view(NUM_ENVS, -1, 13)
        self.forces = wrap(self.gym.acquire_net_contact_force_tensor(self.sim)).view(NUM_ENVS, -1, 3)
        self.sizes = [self.gym.get_actor_rigid_body_count(self.env, i) for i in range(self.actors)]

    def step(self, steps: int, action: float = 0.0) -> None:
        """Take control steps with all actions at one value."""
        for _ in range(steps):
            out = self.task.step(torch.full((NUM_ENVS, self.task.num_actions), action))
            assert torch.isfinite(out[0]["obs"]).all() and torch.isfinite(out[1]).all(), "observation or reward is NaN"
        for name in ("actor_root_state", "dof_state", "rigid_body_state", "net_contact_force"):
            getattr(self.gym, f"refresh_{name}_tensor")(self.sim)

    def index(self, name: str) -> int:
        return self.gym.find_actor_handle(self.env, name)

    def height(self, name: str) -> float:
        """Return the height of an actor's root, the mean of the environments [m]."""
        return float(self.roots[:, self.index(name), 2].mean())

    def weight(self, name: str) -> float:
        """Return the weight of an actor [N]."""
        bodies = self.gym.get_actor_rigid_body_properties(self.env, self.index(name))
        return abs(self.gym.get_sim_params(self.sim).gravity.z) * sum(body.mass for body in bodies)

    def carried(self, name: str) -> float:
        """Return the vertical contact force on an actor over its weight."""
        index = self.index(name)
        start = sum(self.sizes[:index])
        return float(self.forces[:, start : start + self.sizes[index], 2].sum(1).mean()) / self.weight(name)

    def following(self, steps: int) -> float:
        """Return the part of the actuated DoFs that are at a larger position after positive actions than after
        negative ones."""
        self.step(2)
        self.step(steps, 0.5)
        after = self.dofs[..., 0].mean(0).clone()
        self.step(2 * steps, -0.5)
        moved = after - self.dofs[..., 0].mean(0)
        return float((moved > 1e-3).float().mean())


def acceleration(own: Stepper, name: str) -> float:
    """Return the vertical acceleration without actions, the median of the environments, some of which may reset."""
    own.step(1)  # a step resets all environments first
    before = own.roots[:, own.index(name), 9].clone()
    own.step(2)
    dt = own.gym.get_sim_params(own.sim).dt * 2 * own.task.control_freq_inv
    return float((own.roots[:, own.index(name), 9] - before).median()) / dt


def cart(own: Stepper) -> float:
    own.step(1)
    before = own.dofs[:, 0, 0].clone()
    own.step(5, 0.5)
    return float((own.dofs[:, 0, 0] - before).mean())


def held(own: Stepper, name: str, steps: int = 60) -> float:
    """Return how far the body of an actor moves while it should rest, at most [m]."""
    own.step(20)
    before = own.roots[:, own.index(name), :3].clone()
    own.step(steps)
    return float((own.roots[:, own.index(name), :3] - before).norm(dim=1).max())


def after(steps: int, quantity: Callable[[Stepper], float]) -> Callable[[Stepper], float]:
    def measure(own: Stepper) -> float:
        own.step(steps)
        return quantity(own)

    return measure


def lift(own: Stepper) -> float:
    """Return by how much the hand of the Franka rises by 40 actions upward [m]; it starts with zero actions."""
    own.step(2)
    body = own.gym.find_actor_rigid_body_handle(own.env, own.index("franka"), "panda_grip_site")
    before = own.bodies[:, body, 2].clone()
    actions = torch.zeros(NUM_ENVS, own.task.num_actions)
    actions[:, 2] = 0.5
    for _ in range(40):
        own.task.step(actions)
    own.step(0)
    return float((own.bodies[:, body, 2] - before).mean())


def above_ground(own: Stepper) -> float:
    """Return the height of the trunk above the origin of its terrain [m], the median of the environments. Contact
    forces say nothing here: the task ends each control step with a time step without torques."""
    return float((own.roots[:, 0, 2] - own.task.env_origins[:, 2]).median())


class Check(NamedTuple):
    quantity: str
    unit: str
    range: Tuple[float, float]
    measure: Callable[[Stepper], float]


TASKS: Dict[str, Check] = {
    "Cartpole": Check("way of the cart by five positive actions", "m", (0.02, 2.0), cart),
    "Ant": Check("contact forces over weight after 3 s", "1", (0.9, 1.1), after(180, lambda own: own.carried("ant"))),
    "Humanoid": Check("DoFs that follow the sign of the actions", "1", (0.9, 1.0), lambda own: own.following(12)),
    "HumanoidAMP": Check("DoFs that follow the sign of the actions", "1", (0.9, 1.0), lambda own: own.following(12)),
    "Anymal": Check(
        "contact forces over weight after 2 s", "1", (0.9, 1.1), after(100, lambda own: own.carried("anymal"))
    ),
    "AnymalTerrain": Check(
        "height of the trunk above its ground after 2 s", "m", (0.35, 0.65), after(100, above_ground)
    ),
    "AllegroHand": Check("DoFs that follow the sign of the actions", "1", (0.8, 1.0), lambda own: own.following(6)),
    "ShadowHand": Check("DoFs that follow the sign of the actions", "1", (0.8, 1.0), lambda own: own.following(6)),
    "Quadcopter": Check(
        "acceleration without thrust", "m/s^2", (-9.9, -9.7), lambda own: acceleration(own, "quadcopter")
    ),
    "Ingenuity": Check(
        "acceleration without thrust", "m/s^2", (-3.8, -3.6), lambda own: acceleration(own, "ingenuity")
    ),
    "BallBalance": Check("movement of the table's root in 0.6 s", "m", (0.0, 0.02), lambda own: held(own, "bbot")),
    "FrankaCabinet": Check("movement of DoFs without actions in 1 s", "rad", (0.0, 0.05), lambda own: drift(own, 9)),
    "FrankaCubeStack": Check("rise of the hand by 40 actions upward", "m", (0.02, 0.6), lift),
    "Trifinger": Check("movement of the resting cube in 1 s", "m", (0.0, 0.01), lambda own: held(own, "object", 50)),
}


ONE_SCALE = ("Trifinger",)
"""Tasks whose randomisation, of the scale of actors by environment, is switched off: gymapi-mujoco has one scale."""


def drift(own: Stepper, dofs: int) -> float:
    """Return the largest movement of the first DoFs without actions."""
    own.step(20)
    before = own.dofs[:, :dofs, 0].clone()
    own.step(60)
    return float((own.dofs[:, :dofs, 0] - before).abs().max())


_OF_OTHER_TASKS = ("pysdf", "urdfpy", "wandb")
"""Packages that IsaacGymEnvs imports for tasks that are not run here."""


def leave_out(name: str) -> None:
    """Let an import of a package of other tasks pass where it is not installed."""
    if importlib.util.find_spec(name) is None:
        module: Any = types.ModuleType(name)
        module.SDF = module.URDF = None
        sys.modules[name] = module


def make(checkout: Path, task: str) -> Any:
    """Build a task of the checkout by its own configuration."""
    for name in _OF_OTHER_TASKS:
        leave_out(name)
    sys.path[:0] = [str(PACKAGE / "gymapi_mujoco" / "modules"), str(PACKAGE), str(checkout)]
    import isaacgymenvs
    from hydra import compose, initialize_config_dir

    fixed = ["task.task.randomize=False"] if task in ONE_SCALE else []
    overrides = [
        *fixed,
        f"task={task}",
        "pipeline=cpu",
        "sim_device=cpu",
        "rl_device=cpu",
        "headless=True",
        "num_threads=1",
    ]
    with initialize_config_dir(str(checkout.absolute() / "isaacgymenvs" / "cfg"), version_base=None):
        config = compose(config_name="config", overrides=[*overrides, f"num_envs={NUM_ENVS}"])
    torch.manual_seed(0)
    return isaacgymenvs.make(0, task, NUM_ENVS, "cpu", "cpu", -1, headless=True, force_render=False, cfg=config)


def check(checkout: Path, task: str) -> str:
    """Run one task; return its row."""
    with torch.no_grad():
        got = TASKS[task].measure(Stepper(make(checkout, task)))
    one = TASKS[task]
    low, high = one.range
    verdict = "yes" if low <= got <= high else "**no**"
    return f"| {task} | {one.quantity} | {one.unit} | {low:g} to {high:g} | {got:.3g} | {verdict} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="folder of a clone of IsaacGymEnvs")
    parser.add_argument("tasks", nargs="*", help=f"of {', '.join(TASKS)}; all if none is named")
    parser.add_argument("--here", action="store_true", help="run the one task in this process, with its traceback")
    args = parser.parse_args()
    unknown = [task for task in args.tasks if task not in TASKS]
    if unknown or not (args.checkout / "isaacgymenvs").is_dir():
        parser.error(f"no task {', '.join(unknown)}" if unknown else f"{args.checkout} has no folder isaacgymenvs")
    if args.here:
        print(check(args.checkout, args.tasks[0]))
        return 0
    print("| task | quantity | unit | range | got | within |\n|---|---|---|---|---|---|")
    failed = 0
    for task in args.tasks or TASKS:
        command = [sys.executable, __file__, str(args.checkout), task, "--here"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            failed += 1
            print(f"| {task} | did not end within {SECONDS} s | | | | **no** |", flush=True)
            continue
        row = next((row for row in done.stdout.splitlines() if row.startswith(f"| {task} |")), "")
        last = (done.stderr.strip().splitlines() or [""])[-1]
        failed += not row.endswith("| yes |")
        print(row or f"| {task} | {last} | | | | **no** |", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
