"""A stand-in for Isaac Gym: its interface from the stub, its rules as documented, its conventions, MuJoCo's physics.

It speaks as Isaac Gym does: quaternions x y z w, angular velocity in world axes, linear velocity of the trunk's centre
of mass, DoFs and bodies in an order of its own, the mean of two frictions. It fails on a call out of order and on a
tensor of another shape or dtype, and gives NaN to whoever reads a tensor that was not refreshed.
"""

import sys
import types
from pathlib import Path
from typing import Iterator
from xml.etree import ElementTree

import mujoco
import numpy as np
import torch
from mujoco import batch as mujoco_batch

from tests.sim.isaac_gym_stub import make_gymapi

DOF_FIELDS = ("lower", "upper", "velocity", "effort", "stiffness", "damping", "friction", "armature")
BROKEN = slice(int(mujoco.mjtWarning.mjWARN_BADQPOS), int(mujoco.mjtWarning.mjWARN_BADQACC) + 1)


def instead_of_isaac_gym() -> Iterator[list]:
    """Put the double in Isaac Gym's place, for a fixture to yield from; gives the list of the engines acquired."""
    engines: list = []
    _forget()
    sys.modules.update(_modules(engines))
    try:
        yield engines
    finally:
        _forget()


def _forget() -> None:
    """Drop Isaac Gym and what has imported it."""
    for name in [name for name in sys.modules if name.startswith(("isaacgym", "rsl_rl.sim.isaac_gym"))]:
        del sys.modules[name]


def _modules(engines: list) -> dict:

    def acquire() -> Engine:
        engines.append(Engine())
        return engines[-1]

    package = types.ModuleType("isaacgym")
    package.__path__ = []
    package.gymapi = make_gymapi(acquire)
    package.gymapi.AssetOptions = _with_a_default(package.gymapi.AssetOptions)
    package.gymtorch = types.ModuleType("isaacgym.gymtorch")

    def unwrap_tensor(tensor):
        assert isinstance(tensor, torch.Tensor) and tensor.is_contiguous(), "unwrap_tensor takes contiguous tensors"
        return wrapped(package.gymapi, tensor)

    package.gymtorch.wrap_tensor = lambda tensor: tensor.torch
    package.gymtorch.unwrap_tensor = unwrap_tensor
    return {"isaacgym": package, "isaacgym.gymapi": package.gymapi, "isaacgym.gymtorch": package.gymtorch}


def _with_a_default(options: type) -> type:
    """Give AssetOptions the default of Isaac Gym that no robot wants."""

    class AssetOptions(options):
        def __init__(self):
            super().__init__()
            self.angular_damping = 0.5

    return AssetOptions


def wrapped(api, tensor):
    result = api.Tensor()
    object.__setattr__(result, "torch", tensor)
    return result


class Engine:
    """What happens behind the calls. ``api`` is the gymapi module, ``calls`` the names called."""

    def __init__(self):
        self.calls, self.grounds, self.envs, self.poses = [], [], [], []
        self.sim = self.params = self.asset = self.viewer = self.effort = None
        self.prepared = self.fetched = False
        self.fresh, self.set_since = set(), set()
        self.buffers = {}
        self.effort_calls = 0
        self.window_closed = False

    def __getattribute__(self, name):
        value = object.__getattribute__(self, name)
        if callable(value) and not name.startswith("_"):
            self.calls.append(name)
        return value

    # Making the world.

    def create_sim(self, compute_device, graphics_device, kind, params):
        assert self.sim is None, "one simulation at a time"
        assert kind.constant == "SIM_PHYSX" and params.up_axis.constant == "UP_AXIS_Z" and params.substeps == 1
        self.params, self.graphics_device = params, graphics_device
        self.sim = self.api.Sim()
        return self.sim

    def destroy_sim(self, sim):
        self._check(sim)
        self.sim = None

    def _check(self, sim):
        assert sim is self.sim, "this simulation is not there (any more)"

    def _before_environments(self, sim):
        self._check(sim)
        assert not self.envs, "the ground comes before the environments"

    def add_ground(self, sim, params):
        self._before_environments(sim)
        assert (params.normal.x, params.normal.y, params.normal.z, params.distance) == (0, 0, 1, 0)
        self.grounds.append(params)

    def add_heightfield(self, sim, samples, params):
        self._before_environments(sim)
        assert samples.ndim == 1 and len(samples) == params.nbRows * params.nbColumns
        self.grounds.append((samples, params))

    def add_triangle_mesh(self, sim, vertices, triangles, params):
        self._before_environments(sim)
        assert vertices.shape == (3 * params.nb_vertices,) and triangles.shape == (3 * params.nb_triangles,)
        self.grounds.append((vertices, triangles, params))

    def load_urdf(self, sim, folder, name, options):
        self._check(sim)
        assert self.grounds, "no ground"
        assert options.angular_damping == 0 and options.linear_damping == 0, "the double knows no damping of links"
        assert options.replace_cylinder_with_capsule and not options.collapse_fixed_joints
        assert options.use_physx_armature and options.armature == 0 and not options.fix_base_link
        self.asset = self.api.Asset()
        self._read(Path(folder) / name)
        return self.asset

    def _read(self, urdf):
        tree = ElementTree.parse(urdf).getroot()
        links = {link.get("name"): link for link in tree.iterfind("link")}
        order = list(links)
        self.bodies = order[:1] + order[:0:-1]  # the root first, the others the other way round
        self.props = [self._body(links[name]) for name in self.bodies]
        self.joints = [joint for joint in tree.iterfind("joint") if joint.get("type") != "fixed"]
        self.file_order = [joint.get("name") for joint in self.joints]
        self.joints.sort(key=lambda joint: joint.get("name")[::-1])
        self.dofs = [joint.get("name") for joint in self.joints]
        assert self.dofs != self.file_order
        self.model = mujoco.MjModel.from_xml_path(str(urdf.with_suffix(".xml")))
        self.shape_friction = 1.0  # the engine's own default

    def _body(self, link):
        props = self.api.RigidBodyProperties()
        props.mass = float(link.find("inertial/mass").get("value"))
        props.com = self.api.Vec3(*map(float, link.find("inertial/origin").get("xyz").split()))
        inertia = {key: float(value) for key, value in link.find("inertial/inertia").attrib.items()}
        props.inertia = self._mat([[inertia["i" + "".join(sorted(a + b))] for b in "xyz"] for a in "xyz"])
        props.invMass = 1 / props.mass
        props.invInertia = self._mat(np.linalg.inv(matrix(props.inertia)).tolist())
        return props

    def _mat(self, rows):
        mat = self.api.Mat33()
        mat.x, mat.y, mat.z = (self.api.Vec3(*row) for row in rows)
        return mat

    def _copy(self, props):
        copy = self.api.RigidBodyProperties()
        copy.mass, copy.invMass = props.mass, props.invMass
        copy.com = self.api.Vec3(props.com.x, props.com.y, props.com.z)
        copy.inertia, copy.invInertia = (self._mat(matrix(m).tolist()) for m in (props.inertia, props.invInertia))
        return copy

    def get_asset_rigid_body_names(self, asset):
        return list(self.bodies)

    def get_asset_dof_names(self, asset):
        return list(self.dofs)

    def get_asset_dof_properties(self, asset):
        kinds = [("hasLimits", "?"), ("driveMode", "i4"), *((name, "f4") for name in DOF_FIELDS)]
        props = np.zeros(len(self.dofs), dtype=kinds)
        for row, joint in zip(props, self.joints):
            for field, attribute in (("lower",) * 2, ("upper",) * 2, ("velocity",) * 2, ("effort",) * 2):
                row[field] = float(joint.find("limit").get(attribute))
        return props

    def get_asset_rigid_shape_properties(self, asset):
        assert not self.envs
        return self._shapes(self.shape_friction)

    def set_asset_rigid_shape_properties(self, asset, shapes):
        assert not self.envs, "actors have been made of this asset already"
        self.shape_friction = shapes[0].friction

    def _shapes(self, friction):
        shapes = [self.api.RigidShapeProperties() for _ in range(14)]
        for shape in shapes:
            shape.friction = friction
        return shapes

    def create_env(self, sim, lower, upper, per_row):
        self._check(sim)
        assert not self.prepared, "no environments after prepare_sim"
        assert all(getattr(v, axis) == 0 for v in (lower, upper) for axis in "xyz"), "the double has one frame"
        self.envs.append(self.api.Env())
        object.__setattr__(self.envs[-1], "number", len(self.envs) - 1)
        return self.envs[-1]

    def create_actor(self, env, asset, pose, name, group, filter_, segment):
        assert asset is self.asset and env is self.envs[-1] and len(self.poses) == len(self.envs) - 1
        assert group == env.number and filter_ == 1, "robots and links must not touch each other"
        self.poses.append((pose.p.x, pose.p.y, pose.p.z))
        if len(self.poses) == 1:
            self.friction, self.trunks = [], []
        self.friction.append(self.shape_friction)
        self.trunks.append(self._copy(self.props[0]))
        return 0

    def set_actor_dof_properties(self, env, actor, props):
        assert not self.prepared and props.dtype.names[0] == "hasLimits" and len(props) == len(self.dofs)
        self.drives = props.copy()
        return True

    def get_actor_rigid_shape_properties(self, env, actor):
        return self._shapes(self.friction[env.number])

    def set_actor_rigid_shape_properties(self, env, actor, shapes):
        assert len({shape.friction for shape in shapes}) == 1
        self.friction[env.number] = shapes[0].friction
        if self.prepared:
            self._apply_friction()
        return True

    def get_actor_rigid_body_properties(self, env, actor):
        return [self._copy(self.trunks[env.number]), *map(self._copy, self.props[1:])]

    def set_actor_rigid_body_properties(self, env, actor, props, recompute):
        assert not (self.prepared and self.params.use_gpu_pipeline), "masses are fixed on the GPU after prepare_sim"
        assert not recompute, "the double has no densities to take inertia from"
        trunk = props[0]
        np.testing.assert_allclose(trunk.mass * trunk.invMass, 1)
        np.testing.assert_allclose(matrix(trunk.inertia) @ matrix(trunk.invInertia), np.eye(3), atol=1e-9)
        self.trunks[env.number] = trunk
        if self.prepared:
            self._apply_masses()
        return True

    # Running it.

    def prepare_sim(self, sim):
        self._check(sim)
        assert self.poses and not self.prepared, "prepare_sim comes once, after the actors"
        model, count = self.model, len(self.poses)
        gravity = self.params.gravity
        model.opt.timestep, model.opt.gravity = self.params.dt, (gravity.x, gravity.y, gravity.z)
        model.actuator_gainprm[:] = model.actuator_biasprm[:] = 0
        self.ours = [self.dofs.index(model.joint(j).name) for j in range(1, model.njnt)]  # MuJoCo's -> the engine's
        model.dof_damping[6:], model.dof_armature[6:] = (self.drives[f][self.ours] for f in ("damping", "armature"))
        mujoco.mj_setConst(model, mujoco.MjData(model))
        self.driven = bool((self.drives["driveMode"] == 3).all()) and not self.drives["stiffness"].any()
        self.batch = mujoco_batch.Batch(model, count, 1)
        names = ("qpos", "qvel", "qfrc_applied", "qacc_warmstart", "sensordata")
        self.qpos, self.qvel, self.force, self.warm, self.sensors = (self.batch.bind(name) for name in names)
        self.qpos[:, :3] = self.poses
        sensors = [model.sensor(i) for i in range(model.nsensor)]
        self.touch = [(s.name[: -len("_contact")], s.adr[0]) for s in sensors if s.name.endswith("_contact")]
        self.prepared = True
        self._apply_friction()
        self._apply_masses()
        return True

    def _apply_friction(self):
        ground = self.grounds[0].static_friction
        self.batch.expand("pair_friction")[:, :, :2] = (np.array(self.friction)[:, None, None] + ground) / 2

    def _apply_masses(self):
        masses, inertias = self.batch.expand("body_mass"), self.batch.expand("body_inertia")
        link = self.props[0]
        growth = np.array([trunk.inertia.x.x for trunk in self.trunks]) / link.inertia.x.x
        masses[:, 1] = self.model.body_mass[1] + [trunk.mass - link.mass for trunk in self.trunks]
        inertias[:, 1] = self.model.body_inertia[1] * growth[:, None]
        self.batch.set_const()

    def _acquire(self, kind, *shape):
        assert self.prepared, "tensors are there after prepare_sim"
        self.buffers[kind] = torch.full(shape, torch.nan)
        return wrapped(self.api, self.buffers[kind])

    def acquire_actor_root_state_tensor(self, sim):
        return self._acquire("root", len(self.poses), 13)

    def acquire_dof_state_tensor(self, sim):
        return self._acquire("dof", len(self.poses) * len(self.dofs), 2)

    def acquire_net_contact_force_tensor(self, sim):
        return self._acquire("force", len(self.poses) * len(self.bodies), 3)

    def _refreshable(self, sim):
        self._check(sim)
        assert self.fetched or self.params.use_gpu_pipeline, "fetch_results comes before a refresh on the CPU"
        assert not self.set_since, "a refresh after a set and before simulate brings the old state back"

    def refresh_actor_root_state_tensor(self, sim):
        self._refreshable(sim)
        pos, quat = self.qpos[:, :3], self.qpos[:, 3:7]
        turn = rotation(quat)
        spin = np.einsum("nij,nj->ni", turn, self.qvel[:, 3:6])
        lin = self.qvel[:, :3] + np.cross(spin, turn @ self._com())
        self.buffers["root"].copy_(torch.from_numpy(np.concatenate((pos, quat[:, [1, 2, 3, 0]], lin, spin), axis=1)))
        return True

    def _com(self):
        com = self.props[0].com
        return np.array([com.x, com.y, com.z])

    def refresh_dof_state_tensor(self, sim):
        self._refreshable(sim)
        state = np.empty((len(self.poses), len(self.dofs), 2))
        state[:, self.ours, 0], state[:, self.ours, 1] = self.qpos[:, 7:], self.qvel[:, 6:]
        self.buffers["dof"].copy_(torch.from_numpy(state.reshape(-1, 2)))
        return True

    def refresh_net_contact_force_tensor(self, sim):
        self._refreshable(sim)
        assert self.params.physx.contact_collection.constant != "CC_NEVER"
        force = np.zeros((len(self.poses), len(self.bodies), 3))
        for name, at in self.touch:
            force[:, self.bodies.index(name)] = -self.sensors[:, at : at + 3]
        self.buffers["force"].copy_(torch.from_numpy(force.reshape(-1, 3)))
        return True

    def _ids(self, kind, state, ids, count):
        assert self.prepared and kind not in self.set_since, f"{kind}: one indexed write per step"
        assert ids.torch.dtype == torch.int32 and ids.torch.shape == (count,) and len(set(ids.torch.tolist())) == count
        assert state.torch.shape == self.buffers[kind].shape and state.torch.dtype == torch.float32
        self.set_since.add(kind)
        rows = ids.torch.long().numpy()
        self.warm[rows] = 0
        return rows

    def set_actor_root_state_tensor_indexed(self, sim, state, ids, count):
        rows = self._ids("root", state, ids, count)
        root = state.torch.double().numpy()[rows]
        self.qpos[rows, :3], quat = root[:, :3], root[:, [6, 3, 4, 5]]
        np.testing.assert_allclose(np.linalg.norm(quat, axis=1), 1, atol=1e-5)
        self.qpos[rows, 3:7] = quat
        turn = rotation(quat)
        self.qvel[rows, :3] = root[:, 7:10] - np.cross(root[:, 10:13], turn @ self._com())
        self.qvel[rows, 3:6] = np.einsum("nji,nj->ni", turn, root[:, 10:13])
        return True

    def set_dof_state_tensor_indexed(self, sim, state, ids, count):
        rows = self._ids("dof", state, ids, count)
        dof = state.torch.double().numpy().reshape(len(self.poses), len(self.dofs), 2)[rows][:, self.ours]
        self.qpos[rows, 7:], self.qvel[rows, 6:] = dof[:, :, 0], dof[:, :, 1]
        return True

    def set_dof_actuation_force_tensor(self, sim, force):
        self._check(sim)
        assert self.prepared and force.torch.shape == (len(self.poses) * len(self.dofs),)
        assert force.torch.dtype == torch.float32 and torch.isfinite(force.torch).all()
        self.effort = force.torch.double().numpy().reshape(len(self.poses), -1)[:, self.ours]
        return True

    def simulate(self, sim):
        self._check(sim)
        assert self.prepared, "prepare_sim comes before simulate"
        assert self.effort is not None, "an effort lasts for one step"
        assert not self.set_since or self.set_since == {"root", "dof"}, "a reset sets root and DoFs"
        self.force[:, 6:] = self.effort * self.driven
        self.batch.step(nstep=1)
        self._break()
        self.effort, self.fetched, self.set_since = None, False, set()
        for buffer in self.buffers.values():
            buffer.fill_(torch.nan)  # until it is refreshed

    def _break(self):
        """Leave NaN where MuJoCo would put a world back to its start, as PhysX does."""
        broken = (self.batch.warning[:, :, 1] > 0)[:, BROKEN].any(axis=1)
        self.qpos[broken], self.qvel[broken] = np.nan, np.nan
        self.batch.warning[:, :, 1] = 0

    def fetch_results(self, sim, wait):
        self._check(sim)
        assert wait
        self.fetched = True

    # The window.

    def create_viewer(self, sim, camera):
        self._check(sim)
        assert self.graphics_device >= 0, "no graphics device"
        self.viewer = self.api.Viewer()
        return self.viewer

    def viewer_camera_look_at(self, viewer, env, position, target):
        assert viewer is self.viewer and env is self.envs[0]

    def query_viewer_has_closed(self, viewer):
        return self.window_closed

    def step_graphics(self, sim):
        self._check(sim)

    def draw_viewer(self, viewer, sim, collision):
        assert self.calls[-2] == "step_graphics", "step_graphics comes before draw_viewer"

    def sync_frame_time(self, sim):
        self._check(sim)

    def destroy_viewer(self, viewer):
        self.viewer = None


def matrix(mat):
    return np.array([[getattr(getattr(mat, row), column) for column in "xyz"] for row in "xyz"])


def rotation(quat):
    result = np.empty((len(quat), 9))
    for row, q in zip(result, quat):
        mujoco.mju_quat2Mat(row, q)
    return result.reshape(-1, 3, 3)
