"""A card with invented numbers, and an entry around a file that is no network."""

import hashlib
from dataclasses import replace

from rsl_rl.zoo.card import FILM, Card, Criterion, Endurance, Evaluation, Training
from rsl_rl.zoo.entries import CONFIG, CONTRACT, ONNX, write_entry

NETWORK = b"not a network"

CARD = Card(
    name="dog",
    task="go2_flat",
    robot="go2",
    sha256=hashlib.sha256(NETWORK).hexdigest(),
    training=Training(
        command="rsl-rl train --task go2_flat --seed 3",
        commit="0123abc",
        date="2026-11-25",
        seed=3,
        versions={"python": "3.11.7", "torch": "2.13.0"},
        cpu="a CPU",
        instruction_set="x86_64 AVX512",
        threads=1,
        engine="mujoco",
        device="cpu",
        checkpoint=220,
        samples=2_703_360,
        seconds=180.0,
        changed_files=("rsl_rl/a.py",),
    ),
    evaluation=Evaluation(
        robots=256,
        seconds=20.0,
        seeds=(1003,),
        metrics={"fall_rate": 0.25, "standing_drift": None},
        gate={"fall_rate": Criterion(0.01, 0.25), "dead_zone": Criterion(0.05)},
        gate_passed=False,
        endurance={
            "without pushes": Endurance(15.0, 0, None, (5.0, None), 0.1, 0.2),
            "with pushes": Endurance(15.0, 3, 5.0, (1.7, 24.0), 0.1, 0.2),
        },
        disturbances={"slippery": {"fall_rate": 0.5, "lin_vel_error": 0.2, "yaw_rate_error": None}},
        unmet=("fall_rate 0.2500 > 0.01",),
        warnings=("joints are warm",),
    ),
    licence="BSD-3-Clause",
    known_weaknesses=("It falls on ice.",),
)


def write_example(zoo, name="dog", film_content=None, **changes):
    """Write an entry into the folder of a zoo and return its folder."""
    folder = zoo / name
    folder.mkdir(parents=True)
    files = {ONNX: NETWORK, CONTRACT: b"{}\n", CONFIG: b"seed: 3\nenv: {num_envs: 8, sim: {dt: 0.005}}\n"}
    files.update({} if film_content is None else {FILM: film_content})
    write_entry(folder, replace(CARD, name=name, **changes), files)
    return folder
