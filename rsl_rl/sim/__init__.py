"""Physics engines with a common interface, :class:`rsl_rl.sim.base.Sim`."""

from rsl_rl.utils.registry import Registry

SIMS = Registry(
    "sim backend",
    {
        "mujoco": "rsl_rl.sim.mujoco_cpu:MujocoSim",
        "mujoco_warp": "rsl_rl.sim.mujoco_warp:MujocoWarpSim",
        "isaacgym": "rsl_rl.sim.isaacgym.engine:IsaacGymSim",
    },
    base="rsl_rl.sim.base:Sim",
)
