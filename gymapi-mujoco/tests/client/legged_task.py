"""A client of Isaac Gym as legged robots' repositories are built: configs as classes, a registry, a task of our own.

It steps a Go2 with a PD controller in torch, four physics steps per action, with frictions, masses and pushes drawn for
each robot, resets by index, and terrains from ``terrain_utils``.
"""

import isaacgym  # noqa: F401, I001  # before torch, as clients do
from isaacgym import gymapi, gymtorch, gymutil, terrain_utils
from isaacgym.torch_utils import *  # noqa: F403

import os
from pathlib import Path

import numpy as np
import torch

ROBOT = Path(__file__).resolve().parents[3] / "rsl_rl" / "robots" / "go2" / "go2.urdf"


class WalkCfg:
    class env:  # noqa: N801
        num_envs = 16
        episode_length = 100

    class terrain:  # noqa: N801
        mesh_type = "plane"
        cell, vertical_scale, border = 0.1, 0.005, 2.0

    class sim:  # noqa: N801
        dt, substeps, up_axis, gravity = 0.005, 1, 1, [0.0, 0.0, -9.81]

        class physx:  # noqa: N801
            num_threads, solver_type, contact_offset, contact_collection = 10, 1, 0.01, 2

    decimation, stiffness, damping, action_scale = 4, 30.0, 0.75, 0.25


class FieldCfg(WalkCfg):
    class terrain(WalkCfg.terrain):  # noqa: N801
        mesh_type = "heightfield"


class MeshCfg(WalkCfg):
    class terrain(WalkCfg.terrain):  # noqa: N801
        mesh_type = "trimesh"


TRAIN_CFG = {
    "seed": 1,
    "runner_class_name": "OnPolicyRunner",
    "policy": {
        "init_noise_std": 1.0,
        "actor_hidden_dims": [32, 16],
        "critic_hidden_dims": [32, 16],
        "activation": "elu",
    },
    "algorithm": {
        "value_loss_coef": 1.0,
        "use_clipped_value_loss": True,
        "clip_param": 0.2,
        "entropy_coef": 0.01,
        "num_learning_epochs": 2,
        "num_mini_batches": 2,
        "learning_rate": 1e-3,
        "schedule": "adaptive",
        "gamma": 0.99,
        "lam": 0.95,
        "desired_kl": 0.01,
        "max_grad_norm": 1.0,
    },
    "runner": {
        "policy_class_name": "ActorCritic",
        "algorithm_class_name": "PPO",
        "num_steps_per_env": 12,
        "max_iterations": 3,
        "save_interval": 50,
        "experiment_name": "walk",
        "run_name": "",
        "resume": False,
        "load_run": -1,
        "checkpoint": -1,
        "resume_path": None,
    },
}
"""Settings in the form of rsl_rl 1.0."""


class WalkTask:
    """Walk forward; ``step`` returns observations, privileged observations, rewards, resets and extras."""

    def __init__(self, cfg, sim_params, physics_engine, sim_device, headless):
        self.cfg, self.gym = cfg, gymapi.acquire_gym()
        kind, number = gymutil.parse_device_str(sim_device)
        self.device = sim_device if kind == "cuda" and sim_params.use_gpu_pipeline else "cpu"
        self.num_envs, self.num_obs, self.num_privileged_obs, self.num_actions = cfg.env.num_envs, 42, None, 12
        self.max_episode_length = cfg.env.episode_length
        torch._C._jit_set_profiling_mode(False)
        self.sim = self.gym.create_sim(number, -1 if headless else number, physics_engine, sim_params)
        self._create_ground()
        self._create_envs()
        self.gym.prepare_sim(self.sim)
        self._acquire()

    def _create_ground(self):
        terrain = self.cfg.terrain
        if terrain.mesh_type == "plane":
            plane = gymapi.PlaneParams()
            plane.normal = gymapi.Vec3(0.0, 0.0, 1.0)
            plane.static_friction = plane.dynamic_friction = 1.0
            self.gym.add_ground(self.sim, plane)
            return
        tiles = []
        for make in (self._rough, self._stairs):
            tile = terrain_utils.SubTerrain("terrain", 60, 60, terrain.vertical_scale, terrain.cell)
            tiles.append(make(tile).height_field_raw)
        raw = np.concatenate(tiles, axis=0)  # 12 m along x, 6 m along y
        heights = gymapi.HeightFieldParams() if terrain.mesh_type == "heightfield" else gymapi.TriangleMeshParams()
        heights.transform.p.x = heights.transform.p.y = -terrain.border
        if terrain.mesh_type == "heightfield":
            heights.column_scale = heights.row_scale = terrain.cell
            heights.vertical_scale = terrain.vertical_scale
            heights.nbRows, heights.nbColumns = raw.shape[1], raw.shape[0]
            self.gym.add_heightfield(self.sim, raw, heights)
        else:
            mesh = terrain_utils.convert_heightfield_to_trimesh(raw, terrain.cell, terrain.vertical_scale, 0.75)
            heights.nb_vertices, heights.nb_triangles = mesh[0].shape[0], mesh[1].shape[0]
            self.gym.add_triangle_mesh(self.sim, mesh[0].flatten(order="C"), mesh[1].flatten(order="C"), heights)

    @staticmethod
    def _rough(tile):
        return terrain_utils.random_uniform_terrain(tile, -0.03, 0.03, step=0.005, downsampled_scale=0.2)

    @staticmethod
    def _stairs(tile):
        return terrain_utils.pyramid_stairs_terrain(tile, step_width=0.4, step_height=0.05, platform_size=2.0)

    def _create_envs(self):
        options = gymapi.AssetOptions()
        options.default_dof_drive_mode = 3
        options.collapse_fixed_joints = options.replace_cylinder_with_capsule = True
        options.density, options.armature, options.thickness = 0.001, 0.01, 0.01
        options.angular_damping = options.linear_damping = 0.0
        asset = self.gym.load_asset(self.sim, str(ROBOT.parent), ROBOT.name, options)
        self.num_dof = self.gym.get_asset_dof_count(asset)
        names = self.gym.get_asset_rigid_body_names(asset)
        props, shapes = self.gym.get_asset_dof_properties(asset), self.gym.get_asset_rigid_shape_properties(asset)
        self.torque_limits = to_torch(props["effort"], device=self.device)  # noqa: F405
        self.envs, self.actors = [], []
        frictions = torch_rand_float(0.5, 1.25, (self.num_envs, 1), device="cpu")  # noqa: F405
        zero = gymapi.Vec3(0.0, 0.0, 0.0)
        side = int(np.ceil(np.sqrt(self.num_envs)))
        for i in range(self.num_envs):
            env = self.gym.create_env(self.sim, zero, zero, side)
            for shape in shapes:
                shape.friction = frictions[i]  # a tensor of one number
            self.gym.set_asset_rigid_shape_properties(asset, shapes)
            pose = gymapi.Transform()
            pose.p = gymapi.Vec3(*torch.tensor([0.4 * (i % side), 0.4 * (i // side), 0.45]))
            actor = self.gym.create_actor(env, asset, pose, "walker", i, 1, 0)
            self.gym.set_actor_dof_properties(env, actor, props)
            bodies = self.gym.get_actor_rigid_body_properties(env, actor)
            bodies[0].mass += np.random.uniform(-1.0, 1.0)
            self.gym.set_actor_rigid_body_properties(env, actor, bodies, recomputeInertia=True)
            self.envs.append(env)
            self.actors.append(actor)
        find = self.gym.find_actor_rigid_body_handle
        feet = [name for name in names if "foot" in name]
        self.feet = torch.tensor([find(self.envs[0], self.actors[0], name) for name in feet])
        self.trunk = find(self.envs[0], self.actors[0], "trunk")

    def _acquire(self):
        root = self.gym.acquire_actor_root_state_tensor(self.sim)
        dof = self.gym.acquire_dof_state_tensor(self.sim)
        force = self.gym.acquire_net_contact_force_tensor(self.sim)
        self._refresh()
        self.root_states, self.dof_state = gymtorch.wrap_tensor(root), gymtorch.wrap_tensor(dof)
        self.dof_pos = self.dof_state.view(self.num_envs, self.num_dof, 2)[..., 0]
        self.dof_vel = self.dof_state.view(self.num_envs, self.num_dof, 2)[..., 1]
        self.contact_forces = gymtorch.wrap_tensor(force).view(self.num_envs, -1, 3)
        self.start = self.root_states.clone()
        pose = [0.1, 0.8, -1.5, -0.1, 0.8, -1.5, 0.1, 1.0, -1.5, -0.1, 1.0, -1.5]
        self.default_pos = to_torch(pose, device=self.device)  # noqa: F405
        self.gravity = to_torch(get_axis_params(-1.0, 2), device=self.device).repeat((self.num_envs, 1))  # noqa: F405
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long, device=self.device)
        self.reset_buf = torch.ones(self.num_envs, dtype=torch.long, device=self.device)
        self.rew_buf = torch.zeros(self.num_envs, device=self.device)
        self.obs_buf, self.extras = torch.zeros(self.num_envs, self.num_obs, device=self.device), {}
        self.actions = torch.zeros(self.num_envs, self.num_actions, device=self.device)

    def _refresh(self):
        self.gym.refresh_actor_root_state_tensor(self.sim)
        self.gym.refresh_dof_state_tensor(self.sim)
        self.gym.refresh_net_contact_force_tensor(self.sim)

    def step(self, actions):
        self.actions = torch.clip(actions, -100.0, 100.0).to(self.device)
        for _ in range(self.cfg.decimation):
            wanted = self.default_pos + self.cfg.action_scale * self.actions
            torques = self.cfg.stiffness * (wanted - self.dof_pos) - self.cfg.damping * self.dof_vel
            torques = torch.clip(torques, -self.torque_limits, self.torque_limits)
            self.gym.set_dof_actuation_force_tensor(self.sim, gymtorch.unwrap_tensor(torques))
            self.gym.simulate(self.sim)
            if self.device == "cpu":
                self.gym.fetch_results(self.sim, True)
            self.gym.refresh_dof_state_tensor(self.sim)
        self._refresh()
        self.episode_length_buf += 1
        quat = self.root_states[:, 3:7]
        velocity = quat_rotate_inverse(quat, self.root_states[:, 7:10])  # noqa: F405
        height = self.contact_forces[:, self.feet, 2].sum(1)
        self.rew_buf = torch.exp(-4 * (velocity[:, 0] - 0.5).square()) + 1e-4 * height.clip(max=200)
        fallen = self.contact_forces[:, self.trunk].norm(dim=1) > 1.0
        timeout = self.episode_length_buf > self.max_episode_length
        self.reset_buf = fallen | timeout
        self.extras = {"time_outs": timeout}
        if self.episode_length_buf[0] % 40 == 0:  # a push
            self.root_states[:, 7:9] = torch_rand_float(-1.0, 1.0, (self.num_envs, 2), device=self.device)  # noqa: F405
            self.gym.set_actor_root_state_tensor(self.sim, gymtorch.unwrap_tensor(self.root_states))
        self.reset_idx(self.reset_buf.nonzero(as_tuple=False).flatten())
        self._observe()
        return self.obs_buf, None, self.rew_buf, self.reset_buf, self.extras

    def reset_idx(self, env_ids):
        if len(env_ids) == 0:
            return
        noise = torch_rand_float(0.8, 1.2, (len(env_ids), self.num_dof), device=self.device)  # noqa: F405
        self.dof_pos[env_ids], self.dof_vel[env_ids] = self.default_pos * noise, 0.0
        self.root_states[env_ids] = self.start[env_ids]
        ids = env_ids.to(dtype=torch.int32)
        dof, root, count = self.dof_state, self.root_states, len(env_ids)
        handle = gymtorch.unwrap_tensor(ids)
        self.gym.set_dof_state_tensor_indexed(self.sim, gymtorch.unwrap_tensor(dof), handle, count)
        self.gym.set_actor_root_state_tensor_indexed(self.sim, gymtorch.unwrap_tensor(root), handle, count)
        self.episode_length_buf[env_ids] = 0

    def _observe(self):
        quat, twist = self.root_states[:, 3:7], self.root_states[:, 7:13]
        parts = [quat_rotate_inverse(quat, x) for x in (twist[:, 3:], self.gravity)]  # noqa: F405
        parts += [self.dof_pos - self.default_pos, 0.05 * self.dof_vel, self.actions]
        self.obs_buf = torch.cat(parts, dim=-1)

    def reset(self):
        self.reset_idx(torch.arange(self.num_envs, device=self.device))
        obs, privileged, _, _, _ = self.step(torch.zeros(self.num_envs, self.num_actions, device=self.device))
        return obs, privileged

    def get_observations(self):
        return self.obs_buf

    def get_privileged_observations(self):
        return None


class TaskRegistry:
    def __init__(self):
        self.tasks = {}

    def register(self, name, task_class, env_cfg):
        self.tasks[name] = (task_class, env_cfg)

    def make_env(self, name, args):
        task_class, cfg = self.tasks[name]
        cfg.env.num_envs = args.num_envs or cfg.env.num_envs
        params = gymapi.SimParams()
        params.use_gpu_pipeline, params.physx.use_gpu = args.use_gpu_pipeline, args.use_gpu
        gymutil.parse_sim_config(class_to_dict(cfg.sim), params)
        return task_class(cfg, params, args.physics_engine, args.sim_device, args.headless)


def class_to_dict(cls):
    """Return the public attributes of a class, and of classes in it, as a dict."""
    names = [name for name in dir(cls) if not name.startswith("_")]
    values = {name: getattr(cls, name) for name in names}
    return {name: class_to_dict(value) if isinstance(value, type) else value for name, value in values.items()}


task_registry = TaskRegistry()
task_registry.register("walk", WalkTask, WalkCfg)
task_registry.register("walk_field", WalkTask, FieldCfg)
task_registry.register("walk_mesh", WalkTask, MeshCfg)


def get_args():
    parameters = [
        {"name": "--task", "type": str, "default": "walk", "help": "Name of the task"},
        {"name": "--headless", "action": "store_true", "default": False, "help": "Run without a window"},
        {"name": "--num_envs", "type": int, "help": "Number of environments"},
        {"name": "--max_iterations", "type": int, "default": 2, "help": "Number of iterations"},
        {"name": "--rl_device", "type": str, "default": "cuda:0", "help": "Device of the learner"},
    ]
    args = gymutil.parse_arguments(description="RL Policy", custom_parameters=parameters)
    args.sim_device = args.sim_device_type + (f":{args.compute_device_id}" if args.sim_device_type == "cuda" else "")
    return args


def train(args):
    from rsl_rl.runners import OnPolicyRunner

    env = task_registry.make_env(args.task, args)
    runner = OnPolicyRunner(env, TRAIN_CFG, os.environ.get("CLIENT_LOGS"), device=args.rl_device)
    runner.learn(num_learning_iterations=args.max_iterations, init_at_random_ep_len=True)
    return env
