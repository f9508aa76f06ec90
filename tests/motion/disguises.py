"""Write clips in the formats of others with joints and bodies in any order, and with any units and frames."""

import pickle
import warnings

import numpy as np
import torch

from rsl_rl.motion.generate import generate
from rsl_rl.motion.importers.source import EULER, Given
from rsl_rl.motion.kinematics import Kinematics, build_clip
from rsl_rl.motion.rotations import conjugate, from_vector, multiply, rotate, turn_between
from rsl_rl.robots import ROBOTS
from rsl_rl.utils.tensors import from_yaw

LENGTH, ANGLE = {"m": 1.0, "cm": 100.0, "mm": 1000.0}, {"rad": 1.0, "deg": 180 / np.pi}

MOTIONS = {
    "go2": [("trot", 0.5, 0.1, 0.6), ("bound",), ("walk", 0.3, 0.0, -0.4), ("sit",), ("pace", -0.4)],
    "g1": [("walk", 0.4, 0.0, 0.3), ("squat",), ("side_step",)],
}


def motions(most=9):
    """Yield robots by name with their kinematics and at most so many clips of two seconds or more."""
    for name, requests in MOTIONS.items():
        robot = ROBOTS.load(name)
        kinematics = Kinematics(robot)
        for request in requests[:most]:
            seconds = 0.0 if request[0] in ("sit", "squat") else 2.0
            yield name, robot, kinematics, generate(robot, *request, seconds=seconds)


def placed(clip, rng):
    """Return trunk positions and rotations of a clip that starts anywhere on the floor with any heading, float64."""
    yaw = from_yaw(torch.tensor(rng.uniform(-np.pi, np.pi), dtype=torch.float64))
    pos = rotate(yaw, clip.root_pos.double()) + torch.tensor([*rng.uniform(-3, 3, 2), 0.0], dtype=torch.float64)
    quat = clip.root_quat.double()
    return pos, multiply(yaw.expand_as(quat), quat)


UP = {"z": (0.0, 0.0, 0.0), "y": (-np.pi / 2, 0.0, 0.0), "x": (0.0, np.pi / 2, 0.0)}
"""Rotation vector that brings the vertical onto an axis."""


class Disguise:
    """Conventions drawn at random."""

    def __init__(self, rng, joints, bodies, ups=("z", "y", "x")):
        self.order, self.bodies = rng.permutation(joints), rng.permutation(bodies)
        self.length, self.angles = rng.choice(list(LENGTH)), rng.choice(list(ANGLE))
        self.quaternion, self.up = rng.choice(["wxyz", "xyzw"]), str(rng.choice(ups))
        self.whole = bool(rng.integers(2))
        self.turn = from_vector(torch.tensor(UP[self.up], dtype=torch.float64))

    def place(self, pos):
        return (rotate(self.turn, pos) * LENGTH[self.length]).numpy()

    def rotation(self, quat):
        """In the file's world, and with ``whole`` in frames of bodies that have its axes."""
        own = multiply(self.turn.expand_as(quat), quat)
        return multiply(own, conjugate(self.turn).expand_as(own)) if self.whole else own

    def quat(self, quat):
        own = self.rotation(quat).numpy()
        return own if self.quaternion == "wxyz" else own[..., [1, 2, 3, 0]]

    def joints(self, joint_pos):
        return joint_pos.double().numpy()[:, self.order] * ANGLE[self.angles]

    def given(self, kinematics, **others):
        """Return the conventions as a user would give them."""
        names = ",".join(kinematics.joint_names[i] for i in self.order)
        return Given(joints=names, length=self.length, angles=self.angles, up=self.up, **others)


def write_unitree_csv(path, clip, rng):
    own = Disguise(rng, len(clip.joint_names), 1)
    pos, quat = placed(clip, rng)
    np.savetxt(path, np.hstack((own.place(pos), own.quat(quat), own.joints(clip.joint_pos))), delimiter=",", fmt="%.9g")
    return own, Given(fps=clip.fps), lambda kinematics: own.given(kinematics, fps=clip.fps, quaternion=own.quaternion)


def write_bones_csv(path, clip, rng):
    own = Disguise(rng, len(clip.joint_names), 1, ("z", "y"))
    pos, quat = placed(clip, rng)
    order = str(rng.choice(EULER))
    euler = euler_of(own.rotation(quat), order) * ANGLE[own.angles]
    names = [f"{clip.joint_names[i]}_dof" for i in own.order]
    header = ["Frame", *(f"root_translate{x}" for x in "XYZ"), *(f"root_rotate{x}" for x in "XYZ"), *names]
    columns = rng.permutation(len(header))
    values = np.hstack((np.arange(len(pos))[:, None], own.place(pos), euler, own.joints(clip.joint_pos)))
    np.savetxt(
        path, values[:, columns], delimiter=",", fmt="%.9g", header=",".join(header[i] for i in columns), comments=""
    )
    return (
        own,
        Given(fps=clip.fps),
        lambda kinematics: Given(fps=clip.fps, euler=order, length=own.length, angles=own.angles, up=own.up),
    )


def write_qpos(path, clip, rng):
    own = Disguise(rng, len(clip.joint_names), 1)
    pos, quat = placed(clip, rng)
    qpos = np.hstack((own.place(pos), own.quat(quat), own.joints(clip.joint_pos)))
    names = {"joint_names": np.array([clip.joint_names[i] for i in own.order])} if rng.integers(2) else {}
    np.savez(path, qpos=qpos, fps=clip.fps, **names)
    return own, Given(), lambda kinematics: own.given(kinematics, quaternion=own.quaternion)


def write_mjlab_npz(path, clip, rng):
    links = len(clip.link_names)
    own = Disguise(rng, len(clip.joint_names), links, tuple(UP))
    own.whole = False  # frames of bodies are those of the model, whatever the world is
    yaw = from_yaw(torch.tensor(rng.uniform(-np.pi, np.pi), dtype=torch.float64))
    pos, quat = rotate(yaw, clip.link_pos.double()), clip.link_quat.double()
    quat = multiply(yaw.expand_as(quat), quat)
    signs = rng.choice([-1.0, 1.0], len(clip.joint_names))
    np.savez(
        path,
        fps=[clip.fps],
        joint_pos=own.joints(clip.joint_pos) * signs,
        joint_vel=own.joints(clip.joint_vel) * signs,
        body_pos_w=own.place(pos)[:, own.bodies],
        body_quat_w=own.quat(quat)[:, own.bodies],
        body_lin_vel_w=clip.link_vel.numpy()[:, own.bodies],
        body_ang_vel_w=clip.link_ang_vel.numpy()[:, own.bodies],
    )
    return own, Given(), lambda kinematics: Given(length=own.length, up=own.up, quaternion=own.quaternion)


def write_gmr(path, clip, rng):
    own = Disguise(rng, len(clip.joint_names), len(clip.link_names), ("z",))
    pos, quat = placed(clip, rng)
    back = conjugate(clip.root_quat.double()).unsqueeze(1)
    local = rotate(back, clip.link_pos.double() - clip.root_pos.double().unsqueeze(1))
    bodies = (local * LENGTH[own.length]).numpy()[:, own.bodies]
    motion = {
        "fps": clip.fps,
        "root_pos": own.place(pos),
        "root_rot": own.quat(quat),
        "dof_pos": own.joints(clip.joint_pos),
        "local_body_pos": bodies.astype(np.float32) if rng.integers(2) else None,
        "link_body_list": [clip.link_names[i] for i in own.bodies] if rng.integers(2) else None,
    }
    path.write_bytes(pickle.dumps(motion, protocol=int(rng.integers(2, 6))))
    return own, Given(), lambda kinematics: own.given(kinematics, quaternion=own.quaternion)


def write_motion_lib(path, clip, rng):
    own = Disguise(rng, len(clip.joint_names), 1, ("z",))
    pos, quat = placed(clip, rng)
    motion = {
        "root_trans_offset": own.place(pos),
        "root_rot": own.quat(quat),
        "dof": own.joints(clip.joint_pos),
        "pose_aa": np.zeros((clip.num_frames, len(clip.joint_names) + 1, 3)),
        "fps": int(clip.fps),
    }
    path.write_bytes(pickle.dumps({"walk_1": motion, "other": {**motion, "dof": motion["dof"] * 0}}))
    return (
        own,
        Given(motion="walk_1"),
        lambda kinematics: own.given(kinematics, quaternion=own.quaternion, motion="walk_1"),
    )


def write_bvh(path, clip, rng):
    """A skeleton whose joints are the links, with channels in any order and siblings in any order, y up or z up."""
    kinematics = Kinematics(ROBOTS.load("g1" if "left_hip_pitch" in clip.link_names else "go2"))
    own = Disguise(rng, 1, len(clip.link_names), ("z", "y"))
    yaw = from_yaw(torch.tensor(rng.uniform(-np.pi, np.pi), dtype=torch.float64))
    turn, size = own.turn, LENGTH[own.length]
    rest, _ = kinematics.links(torch.zeros(1, len(clip.joint_names)))
    quat = multiply(yaw.expand_as(clip.link_quat.double()), clip.link_quat.double())
    quat = multiply(
        multiply(turn.expand_as(quat), quat), conjugate(turn).expand_as(quat)
    )  # rest frames are the trunk's
    place = rotate(turn, rotate(yaw, clip.root_pos.double())) * size
    angles, lines = [], []
    channels = "".join(rng.permutation(list("XYZ")))

    def write(number, depth):
        parent, pad = kinematics.parents[number], "  " * depth
        offset = rest[0, number] - (rest[0, parent] if parent >= 0 else rest[0, number])
        offset = rotate(turn, offset) * size
        lines.append(f"{pad}{'ROOT' if parent < 0 else 'JOINT'} {clip.link_names[number]}")
        lines.append(f"{pad}{{")
        lines.append(f"{pad}  OFFSET {' '.join(f'{x:.9g}' for x in offset.tolist())}")
        position = "Xposition Yposition Zposition " if parent < 0 else ""
        turns = " ".join(f"{axis}rotation" for axis in channels)
        lines.append(f"{pad}  CHANNELS {6 if position else 3} {position}{turns}")
        relative = quat[:, number] if parent < 0 else multiply(conjugate(quat[:, parent]), quat[:, number])
        if position:
            angles.append(place.numpy())
        turned = euler_of(relative, channels[::-1].lower()) * 180 / np.pi  # about axes of the body, first channel first
        angles.append(turned[:, ["XYZ".index(axis) for axis in channels]])
        children = [k for k, p in enumerate(kinematics.parents) if p == number]
        for child in rng.permutation(children).tolist() if children else []:
            write(child, depth + 1)
        if not children:
            lines.extend([f"{pad}  End Site", f"{pad}  {{", f"{pad}    OFFSET 0 0 {-0.1 * size:.9g}", f"{pad}  }}"])
        lines.append(f"{pad}}}")

    write(0, 0)
    rows = "\n".join(" ".join(f"{x:.9g}" for x in row) for row in np.hstack(angles))
    frames = f"MOTION\nFrames: {clip.num_frames}\nFrame Time: {1 / clip.fps:.8f}\n"
    path.write_text("HIERARCHY\n" + "\n".join(lines) + "\n" + frames + rows + "\n")
    return own, Given(), lambda kinematics: Given(length=own.length, up=own.up)


def euler_of(quat, order):
    """Return angles [F, 3] about x, y and z whose turns about fixed axes in an order are rotations [F, 4]."""
    from scipy.spatial.transform import Rotation

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # in gimbal lock one of the angles is 0, and the rotation is the same
        angles = Rotation.from_quat(quat.numpy()[:, [1, 2, 3, 0]]).as_euler(order)
    return angles[:, [order.index(axis) for axis in "xyz"]]


FORMATS = {
    "unitree_csv": (".csv", write_unitree_csv),
    "bones_csv": (".csv", write_bones_csv),
    "qpos": (".npz", write_qpos),
    "mjlab_npz": (".npz", write_mjlab_npz),
    "gmr": (".pkl", write_gmr),
    "motion_lib": (".pkl", write_motion_lib),
    "bvh": (".bvh", write_bvh),
}


def difference(clip, other):
    """Return how far links [m] and joints [rad] of two clips are apart, seen from where each starts."""
    if clip.num_frames != other.num_frames:
        return float("inf"), float("inf")
    places = []
    for own in (clip, other):
        level = torch.tensor([1.0, 0.0, 0.0, 0.0])
        back = from_yaw(-turn_between(level, own.root_quat[0]))
        places.append(rotate(back, own.link_pos - own.root_pos[0] * torch.tensor([1.0, 1.0, 0.0])))
    return float((places[0] - places[1]).abs().max()), float((clip.joint_pos - other.joint_pos).abs().max())


__all__ = ["FORMATS", "build_clip", "difference", "motions"]
