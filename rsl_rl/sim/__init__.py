"""Physics engines with a common interface, one engine per file."""

from rsl_rl.utils.registry import Registry

SIMS = Registry(
    "sim backend",
    {
        "mujoco": "rsl_rl.sim.mujoco_cpu:MujocoSim",
        "mujoco_warp": "rsl_rl.sim.mujoco_warp:MujocoWarpSim",
        "isaacgym": "rsl_rl.sim.isaac_gym:IsaacGymSim",
    },
)
