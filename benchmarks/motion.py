"""Measure generated gaits: footfalls against the gait's definition, sliding feet, joint limits.

    python benchmarks/motion.py go2 anymal_c zoo.robots.go1.flat:ROBOT zoo.robots.solo12.flat:ROBOT

Prints a row for each robot and gait, and one line of JSON at the end. An adopted robot is named package.module:ROBOT.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any, Dict, List

import torch

from rsl_rl.motion.checks import check, feet_of, footfalls
from rsl_rl.motion.gaits import GAITS, places_of
from rsl_rl.motion.generate import generate
from rsl_rl.motion.kinematics import Kinematics
from rsl_rl.motion.legs import legs_of
from rsl_rl.robots import ROBOTS

FPS = 400.0
"""Frame rate at which footfalls are read [Hz]."""


def measure(name: str, gait: str) -> Dict[str, Any]:
    """Return how a generated gait of a robot differs from its definition."""
    robot = ROBOTS.load(name)
    kinematics, legs = Kinematics(robot), legs_of(robot)
    clip = generate(robot, gait, fps=FPS)
    own = GAITS[gait]
    falls = dict(zip(places_of(legs.default_position), footfalls(clip, legs).values()))
    first = falls["RL"][1]
    late = [
        ((falls[place][1] - first) - (own.touchdown[place] - own.touchdown["RL"]) + 0.5) % 1.0 - 0.5 for place in falls
    ]
    feet = feet_of(clip, legs)
    low, high = kinematics.limits.float().unbind(1)
    margin = torch.minimum(clip.joint_pos - low, high - clip.joint_pos).min()
    return {
        "robot": name.partition(":")[0],
        "gait": gait,
        "speed": round(float(clip.link_vel[:, 0, 0].mean()), 2),
        "order": "-".join(sorted(falls, key=lambda place: round((falls[place][1] - first) % 1.0, 2) % 1.0)),
        "touchdown error": round(max(abs(x) for x in late), 3),
        "duty": own.duty,
        "duty error": round(max(abs(fall[0] - own.duty) for fall in falls.values()), 3),
        "sliding [cm/s]": round(100 * float((feet.speed * feet.standing).max()), 2),
        "limit margin [rad]": round(float(margin), 2),
        "faults": len(check(clip, kinematics, legs)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("robots", nargs="+")
    sys.path.insert(0, os.getcwd())  # for adopted robots
    rows: List[Dict[str, Any]] = []
    for name in parser.parse_args().robots:
        for gait in GAITS:
            rows.append(measure(name, gait))
            if len(rows) == 1:
                print("| " + " | ".join(rows[0]) + " |\n" + "|---" * len(rows[0]) + "|")
            print("| " + " | ".join(map(str, rows[-1].values())) + " |", flush=True)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
