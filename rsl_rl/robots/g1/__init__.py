"""Unitree G1: a 33 kg humanoid with six joints per leg and a fixed upper body; legs in the order left, right.

The sources of the values are in g1.xml.
"""

from pathlib import Path

from rsl_rl.robots.robot import Robot

G1 = Robot(
    model_path=Path(__file__).parent / "g1.xml",
    default_joint_pos={  # type: ignore[arg-type]  # by pattern
        ".*_hip_pitch_joint": -0.2,
        ".*_hip_(roll|yaw)_joint": 0.0,
        ".*_knee_joint": 0.42,
        ".*_ankle_pitch_joint": -0.22,
        ".*_ankle_roll_joint": 0.0,
    },
    standing_height=0.785,
    foot_radius=0.01,
    mirrored_joints=(6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5),
    mirror_signs=(1.0, -1.0, -1.0, 1.0, 1.0, -1.0) * 2,
    mirrored_feet=(1, 0),
    foot_groups={"left": "left_foot", "right": "right_foot"},
    joint_groups={
        "abduction": ".*_hip_roll_joint",
        "hip_yaw": ".*_hip_yaw_joint",
        "hip": ".*_hip_pitch_joint",
        "knee": ".*_knee_joint",
        "ankle": ".*_ankle_.*_joint",
    },
)
