"""Unitree H1: a 59 kg humanoid with five joints per leg and a fixed upper body; legs in the order left, right.

The sources of the values are in h1.xml.
"""

from pathlib import Path

from rsl_rl.robots.robot import Robot

H1 = Robot(
    model_path=Path(__file__).parent / "h1.xml",
    default_joint_pos={  # type: ignore[arg-type]  # by pattern
        ".*_hip_(yaw|roll)_joint": 0.0,
        ".*_hip_pitch_joint": -0.16,
        ".*_knee_joint": 0.46,
        ".*_ankle_joint": -0.3,
    },
    standing_height=1.02,
    foot_radius=0.012,
    mirrored_joints=(5, 6, 7, 8, 9, 0, 1, 2, 3, 4),
    mirror_signs=(-1.0, -1.0, 1.0, 1.0, 1.0) * 2,
    mirrored_feet=(1, 0),
    foot_groups={"left": "left_foot", "right": "right_foot"},
    joint_groups={
        "abduction": ".*_hip_roll_joint",
        "hip_yaw": ".*_hip_yaw_joint",
        "hip": ".*_hip_pitch_joint",
        "knee": ".*_knee_joint",
        "ankle": ".*_ankle_joint",
    },
)
