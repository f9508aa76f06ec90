"""Unitree Go2: a 15 kg quadruped with three joints per leg; legs in the order FL, FR, RL, RR.

The sources of the values are in go2.xml.
"""

from pathlib import Path

from rsl_rl.robots.robot import Robot

GO2 = Robot(
    model_path=Path(__file__).parent / "go2.xml",
    default_joint_pos=(0.1, 0.8, -1.5, -0.1, 0.8, -1.5, 0.1, 1.0, -1.5, -0.1, 1.0, -1.5),
    standing_height=0.32,
    foot_radius=0.022,
    mirrored_joints=(3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8),
    mirror_signs=(-1.0, 1.0, 1.0) * 4,
    mirrored_feet=(1, 0, 3, 2),
    foot_groups={
        "front": ("FL_foot", "FR_foot"),
        "rear": ("RL_foot", "RR_foot"),
        "left": ("FL_foot", "RL_foot"),
        "right": ("FR_foot", "RR_foot"),
    },
    joint_groups={"abduction": ".*_hip_joint", "hip": ".*_thigh_joint", "knee": ".*_calf_joint"},
)
