"""URDF files for the tests, and a simulation of them."""

from pathlib import Path

import torch

GO2 = Path(__file__).resolve().parents[2] / "rsl_rl" / "robots" / "go2" / "go2.urdf"
STANDING = [0.1, 0.8, -1.5, -0.1, 0.8, -1.5, 0.1, 1.0, -1.5, -0.1, 1.0, -1.5]
"""Joint angles of a standing Go2, legs FL FR RL RR."""

ARM = """
<robot name="arm">
  <link name="base">
    <inertial><origin xyz="0.1 0.02 -0.03"/><mass value="2"/>
      <inertia ixx="0.02" iyy="0.03" izz="0.04" ixy="0.001" ixz="0.002" iyz="-0.001"/></inertial>
    <collision><geometry><box size="0.3 0.2 0.1"/></geometry></collision>
  </link>
  <joint name="b_slide" type="prismatic">
    <origin xyz="0.2 0 0"/><parent link="base"/><child link="slider"/><axis xyz="1 0 0"/>
    <limit lower="-0.1" upper="0.2" effort="50" velocity="2"/>
  </joint>
  <link name="slider">
    <inertial><origin xyz="0.05 0 0"/><mass value="0.5"/>
      <inertia ixx="0.001" iyy="0.001" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <joint name="a_hinge" type="revolute">
    <origin xyz="-0.1 0.1 0" rpy="0.2 0 0.3"/><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
    <limit lower="-0.5" upper="1.0" effort="10" velocity="5"/><dynamics damping="0.2"/>
  </joint>
  <link name="upper">
    <inertial><origin xyz="0 0.01 -0.1"/><mass value="0.7"/>
      <inertia ixx="0.003" iyy="0.003" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><origin xyz="0 0 -0.1"/><geometry><cylinder radius="0.03" length="0.2"/></geometry></collision>
  </link>
  <joint name="tool_fixed" type="fixed">
    <origin xyz="0 0 -0.25" rpy="0 0.4 0"/><parent link="upper"/><child link="tool"/>
  </joint>
  <link name="tool">
    <inertial><origin xyz="0.02 0 0"/><mass value="0.2"/>
      <inertia ixx="0.0004" iyy="0.0005" izz="0.0006" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><geometry><sphere radius="0.05"/></geometry></collision>
  </link>
  <joint name="Z_spin" type="continuous">
    <origin xyz="0 0 -0.05"/><parent link="tool"/><child link="wheel"/><axis xyz="0 0 2"/>
    <limit effort="0" velocity="0"/>
  </joint>
  <link name="wheel">
    <inertial><mass value="0.1"/><inertia ixx="0.0001" iyy="0.0001" izz="0.0002" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
</robot>
"""
"""Joints whose order in the file is not that of their names; a fixed link between two moving ones."""


def box_urdf(mass=1.0, side=0.2):
    inertia = mass * side**2 / 6
    return f"""
<robot name="box"><link name="box">
  <inertial><mass value="{mass}"/>
    <inertia ixx="{inertia}" iyy="{inertia}" izz="{inertia}" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><geometry><box size="{side} {side} {side}"/></geometry></collision>
</link></robot>"""


class World:
    """A prepared simulation of copies of one robot, with its tensors."""

    def __init__(self, gymapi, urdf, num_envs=2, height=1.0, ground="plane", setup=None, change=None, **options):
        from isaacgym import gymtorch

        self.api, self.torch, self.num_envs = gymapi, gymtorch, num_envs
        self.gym = gymapi.acquire_gym()
        params = gymapi.SimParams()
        params.dt, params.substeps, params.up_axis = 0.005, 1, gymapi.UP_AXIS_Z
        params.gravity, params.physx.num_threads = gymapi.Vec3(0.0, 0.0, -9.81), 1
        if setup is not None:
            setup(params)
        self.sim = self.gym.create_sim(0, -1, gymapi.SIM_PHYSX, params)
        if ground == "plane":
            plane = gymapi.PlaneParams()
            plane.normal = gymapi.Vec3(0, 0, 1)
            self.gym.add_ground(self.sim, plane)
        elif ground is not None:
            ground(self)
        self.options = gymapi.AssetOptions()
        self.options.default_dof_drive_mode = 3
        self.options.angular_damping = 0.0
        for name, value in options.items():
            setattr(self.options, name, value)
        self.asset = self.gym.load_asset(self.sim, str(Path(urdf).parent), Path(urdf).name, self.options)
        self.envs = []
        for i in range(num_envs):
            env = self.gym.create_env(self.sim, gymapi.Vec3(), gymapi.Vec3(), 1)
            pose = gymapi.Transform(gymapi.Vec3(0.5 * i, 0.0, height))
            self.gym.create_actor(env, self.asset, pose, "robot", i, 1)
            if change is not None:
                change(self, env, i)
            self.envs.append(env)

    def prepare(self):
        self.gym.prepare_sim(self.sim)
        wrap = self.torch.wrap_tensor
        self.root = wrap(self.gym.acquire_actor_root_state_tensor(self.sim))
        dof = wrap(self.gym.acquire_dof_state_tensor(self.sim))
        self.dof = torch.zeros(self.num_envs, 0, 2) if dof is None else dof.view(self.num_envs, -1, 2)
        self.force = wrap(self.gym.acquire_net_contact_force_tensor(self.sim)).view(self.num_envs, -1, 3)
        self.body = wrap(self.gym.acquire_rigid_body_state_tensor(self.sim)).view(self.num_envs, -1, 13)
        return self

    def unwrap(self, tensor):
        return self.torch.unwrap_tensor(tensor.contiguous())

    def step(self, steps=1, efforts=None):
        for _ in range(steps):
            if efforts is not None:
                values = efforts() if callable(efforts) else efforts
                self.gym.set_dof_actuation_force_tensor(self.sim, self.unwrap(values))
            self.gym.simulate(self.sim)
            self.gym.refresh_dof_state_tensor(self.sim)
        self.refresh()

    def refresh(self):
        self.gym.refresh_actor_root_state_tensor(self.sim)
        self.gym.refresh_dof_state_tensor(self.sim)
        self.gym.refresh_net_contact_force_tensor(self.sim)
        self.gym.refresh_rigid_body_state_tensor(self.sim)

    def stand(self, steps=300):
        """Hold the standing pose of Go2 by a PD controller."""
        pose = torch.tensor(STANDING)
        self.dof[..., 0] = pose
        self.gym.set_dof_state_tensor(self.sim, self.unwrap(self.dof.view(-1, 2)))
        self.step(steps, lambda: 40 * (pose - self.dof[..., 0]) - self.dof[..., 1])
