"""Small robot models as others write them: meshes that are missing, elements of other programs, fixed joints."""

from __future__ import annotations


def quadruped_urdf(
    length: float = 0.4,
    width: float = 0.2,
    upper: float = 0.2,
    lower: float = 0.22,
    mass: float = 10.0,
    flipped: bool = False,
    effort: float = 25.0,
    legs: tuple = ("LF", "RF", "LH", "RH"),
    order: int = 1,
) -> str:
    """Return a quadruped with a camera on a fixed joint, a neck, and Gazebo elements.

    ``flipped``: the joints of right legs turn about the opposite axis. ``order`` -1 lists the legs backwards.
    """
    parts = [
        '<?xml version="1.0"?>\n<robot name="dog">',
        '<gazebo><plugin name="p" filename="libp.so"/></gazebo>',
        '<gazebo reference="trunk"><mu1>0.6</mu1></gazebo>',
        "<transmission name='t'><type>SimpleTransmission</type></transmission>",
        '<link name="root"/>',
        _fixed("root", "trunk", "0 0 0"),
        _link(
            "trunk",
            0.6 * mass,
            _box(0.6 * mass, length, 0.8 * width, 0.1),
            mesh="package://dog_description/meshes/trunk.dae",
        ),
        _fixed("trunk", "camera", f"{length / 2} 0 0.05"),
        '<link name="camera"/>',
        _joint("neck", "trunk", "head", f"{length / 2} 0 0.08", "0 1 0", 5.0),
        _link("head", 0.02 * mass, _box(0.02 * mass, 0.08, 0.06, 0.05), shape='<box size="0.08 0.06 0.05"/>'),
    ]
    for leg in legs[::order]:
        x = length / 2 if leg[1] == "F" else -length / 2
        y = width / 2 if leg[0] == "L" else -width / 2
        sign = -1 if flipped and leg[0] == "R" else 1
        parts += [
            _joint(f"{leg}_HAA", "trunk", f"{leg}_HIP", f"{x} {y} 0", f"{sign} 0 0", effort),
            _link(f"{leg}_HIP", 0.02 * mass, _box(0.02 * mass, 0.05, 0.05, 0.05)),
            _joint(f"{leg}_HFE", f"{leg}_HIP", f"{leg}_THIGH", f"0 {0.3 * y} 0", f"0 {sign} 0", effort),
            _link(
                f"{leg}_THIGH",
                0.06 * mass,
                _box(0.06 * mass, 0.05, 0.05, upper),
                mesh="package://dog_description/meshes/thigh.stl",
            ),
            _joint(f"{leg}_KFE", f"{leg}_THIGH", f"{leg}_SHANK", f"0 0 {-upper}", f"0 {sign} 0", effort),
            _link(
                f"{leg}_SHANK",
                0.015 * mass,
                _box(0.015 * mass, 0.02, 0.02, lower),
                shape=f'<cylinder radius="0.012" length="{0.8 * lower}"/>',
                at=f"0 0 {-lower / 2}",
            ),
            _fixed(f"{leg}_SHANK", f"{leg}_FOOT", f"0 0 {-lower}"),
            f'<link name="{leg}_FOOT"><collision><geometry><sphere radius="0.02"/></geometry></collision></link>',
        ]
    return "\n".join([*parts, "</robot>"])


def _box(mass: float, x: float, y: float, z: float) -> tuple:
    """Return the inertia of a box [kg m^2]."""
    return mass / 12 * (y * y + z * z), mass / 12 * (x * x + z * z), mass / 12 * (x * x + y * y)


def _link(name, mass, inertia, shape="", mesh="", at="0 0 0") -> str:
    x, y, z = inertia
    shapes = [f'<geometry><mesh filename="{mesh}"/></geometry>'] if mesh else []
    shapes += [f'<origin xyz="{at}"/><geometry>{shape}</geometry>'] if shape else []
    return (
        f'<link name="{name}"><inertial><origin xyz="{at}"/><mass value="{mass}"/>'
        f'<inertia ixx="{x}" iyy="{y}" izz="{z}" ixy="0" ixz="0" iyz="0"/></inertial>'
        + "".join(f"<visual>{s}</visual><collision>{s}</collision>" for s in shapes)
        + "</link>"
    )


def _joint(name, parent, child, at, axis, effort, kind="revolute") -> str:
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/><origin xyz="{at}"/>'
        f'<axis xyz="{axis}"/><limit lower="-2.6" upper="2.6" effort="{effort}" velocity="20"/></joint>'
    )


def _fixed(parent, child, at) -> str:
    return (
        f'<joint name="{child}_fixed" type="fixed"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{at}"/></joint>'
    )


def wheeled_urdf() -> str:
    """Return a robot with two legs, each with a hip, a knee and a wheel."""
    parts = ['<robot name="roller">', _link("body", 4.0, (0.05, 0.05, 0.05), shape='<box size="0.2 0.2 0.2"/>')]
    for side, y in (("left", 0.15), ("right", -0.15)):
        parts += [
            _joint(f"{side}_hip", "body", f"{side}_thigh", f"0 {y} -0.1", "0 1 0", 16),
            _link(f"{side}_thigh", 0.4, (1e-3, 1e-3, 1e-4), shape='<box size="0.03 0.03 0.2"/>', at="0 0 -0.1"),
            _joint(f"{side}_knee", f"{side}_thigh", f"{side}_calf", "0 0 -0.2", "0 1 0", 16),
            _link(f"{side}_calf", 0.3, (1e-3, 1e-3, 1e-4), shape='<box size="0.03 0.03 0.2"/>', at="0 0 -0.1"),
            _joint(f"{side}_axle", f"{side}_calf", f"{side}_tire", "0 0 -0.2", "0 0 1", 2, "continuous").replace(
                '<origin xyz="0 0 -0.2"/>', '<origin xyz="0 0 -0.2" rpy="1.5707963 0 0"/>'
            ),
            _link(f"{side}_tire", 0.2, (2e-4, 2e-4, 4e-4), shape='<cylinder radius="0.06" length="0.03"/>'),
        ]
    return "\n".join([*parts, "</robot>"])


BIPED_LEG = """
<body name="{side}_hip" pos="0 {y} -0.1">
  <joint name="{side}_yaw" axis="0 0 1" range="-0.5 0.5"/><geom type="sphere" size="0.05" mass="1"/>
  <body name="{side}_pelvis">
    <joint name="{side}_roll" axis="1 0 0" range="-0.5 0.5"/><geom type="sphere" size="0.05" mass="1"/>
    <body name="{side}_thigh">
      <joint name="{side}_pitch" axis="0 1 0" range="-1.5 1.0"/>
      <geom type="capsule" fromto="0 0 -0.05 0 0 -0.3" size="0.05" mass="3"/>
      <body name="{side}_shin" pos="0 0 -0.35">
        <joint name="{side}_knee" axis="0 1 0" range="0 2.2"/>
        <geom type="capsule" fromto="0 0 -0.05 0 0 -0.3" size="0.04" mass="2"/>
        <body name="{side}_ankle" pos="0 0 -0.35">
          <joint name="{side}_ankle_pitch" axis="0 1 0" range="-1 1"/><geom type="sphere" size="0.03" mass="0.3"/>
          <body name="{side}_sole">
            <joint name="{side}_ankle_roll" axis="1 0 0" range="-0.4 0.4"/>
            <geom type="box" class="foot" size="0.1 0.045 0.015" pos="0.03 0 -0.045" mass="0.7"/>
          </body>
        </body>
      </body>
    </body>
  </body>
</body>"""

BIPED_ARM = """
<body name="{side}_arm" pos="0 {y} 0.25">
  <joint name="{side}_shoulder" axis="0 1 0" range="-2 2"/>
  <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.03" mass="1"/>
</body>"""


def biped_mjcf(include: str = "defaults.xml") -> str:
    """Return a biped with a floor, a box, keyframes, sensors and motors of its own; defaults are in another file."""
    sides = (("left", 0.1), ("right", -0.1))
    legs = "".join(BIPED_LEG.format(side=side, y=y) for side, y in sides)
    arms = "".join(BIPED_ARM.format(side=side, y=2 * y) for side, y in sides)
    motors = "".join(
        f'<motor name="{side}_{joint}" joint="{side}_{joint}" gear="50" ctrlrange="-2 2"/>'
        for side, _ in sides
        for joint in ("yaw", "roll", "pitch", "knee", "ankle_pitch", "ankle_roll")
    )
    return f"""<mujoco model="walker">
  <include file="{include}"/>
  <asset><mesh name="shell" file="shell.stl"/></asset>
  <worldbody>
    <geom name="ground" type="plane" size="5 5 0.1"/>
    <camera name="side" pos="0 -3 1" xyaxes="1 0 0 0 0 1"/>
    <body name="crate" pos="2 0 0.1"><geom type="box" size="0.1 0.1 0.1"/></body>
    <body name="torso" pos="0 0 0.87"><freejoint/>
      <geom type="box" size="0.08 0.12 0.2" pos="0 0 0.12" mass="15"/>
      <geom type="mesh" mesh="shell" mass="0"/>
      <site name="imu"/>{legs}{arms}
    </body>
  </worldbody>
  <actuator>{motors}</actuator>
  <sensor><gyro name="gyro" site="imu"/><touch name="lost" site="imu"/></sensor>
  <keyframe><key name="home" qpos="0 0 0.8 1 0 0 0 {"0 0 -0.3 0.6 -0.3 0 " * 2} 0 0"/></keyframe>
</mujoco>"""


BIPED_DEFAULTS = """<mujoco>
  <default>
    <joint damping="0.5"/>
    <default class="foot"><geom rgba="0 0 0 1"/></default>
  </default>
</mujoco>"""


def one_leg_urdf() -> str:
    return quadruped_urdf(legs=("LF",)).replace("neck", "mast")


def arm_urdf() -> str:
    """Return an arm on a table."""
    parts = ['<robot name="arm">', _link("table", 9.0, (1, 1, 1), shape='<box size="1 1 0.1"/>')]
    parent = "table"
    for i in range(4):
        parts += [
            _joint(f"j{i}", parent, f"l{i}", "0 0 0.3", "0 1 0", 20),
            _link(f"l{i}", 1.0, (0.01, 0.01, 0.01), shape='<box size="0.05 0.05 0.3"/>', at="0 0 0.15"),
        ]
        parent = f"l{i}"
    return "\n".join([*parts, "</robot>"])
