"""ANYmal C: a 52 kg quadruped with three joints per leg; legs in the order LF, RF, LH, RH.

The sources of the values are in anymal_c.xml.
"""

from pathlib import Path

from rsl_rl.robots.robot import Robot

ANYMAL_C = Robot(
    model_path=Path(__file__).parent / "anymal_c.xml",
    default_joint_pos={  # type: ignore[arg-type]  # by pattern
        ".*_HAA": 0.0,
        ".F_HFE": 0.4,
        ".H_HFE": -0.4,
        ".F_KFE": -0.8,
        ".H_KFE": 0.8,
    },
    standing_height=0.57,
    foot_radius=0.03,
    mirrored_joints=(3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8),
    mirror_signs=(-1.0, 1.0, 1.0) * 4,
    mirrored_feet=(1, 0, 3, 2),
    foot_groups={"front": ".F_foot", "rear": ".H_foot", "left": "L._foot", "right": "R._foot"},
    joint_groups={"abduction": ".*_HAA", "hip": ".*_HFE", "knee": ".*_KFE"},
)
