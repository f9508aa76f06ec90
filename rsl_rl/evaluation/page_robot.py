"""Gather what a page in which a policy walks needs: model, ground, noise and card of its task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Sequence

import numpy as np

from rsl_rl.config.mdp import ObservationTerm
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.config.terrain import TerrainConfig
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.terrain.terrain import Terrain, build_terrain
from rsl_rl.utils.mujoco_model import file_to_draw
from rsl_rl.utils.registry import values_by_name
from rsl_rl.viz.page import PageFact, PageGround, PageRobot, PageStart, pack
from rsl_rl.viz.page_model import read_model
from rsl_rl.viz.training_news import METRICS, parse_line

TERMS = (
    *("base_lin_vel", "base_ang_vel", "gravity", "command", "gait_clock", "joint_pos", "joint_vel", "action"),
    *("height_scan", "friction", "payload", "base_height"),
)
"""Observation terms that a page computes."""

_INPUTS = ("obs", "h_in", "c_in")
_LEVELS = 4  # rows of tiles in a page


def gather_robot(
    env: LeggedRobot,
    trained: LeggedRobotConfig,
    onnx: bytes,
    description: Mapping[str, Any],
    groups: Sequence[str],
    facts: Mapping[str, str],
) -> PageRobot:
    """Return the robot of a page; a policy or an actuator that a page cannot run is a ValueError.

    ``trained`` is the task with the noise of the training. ``onnx`` is the content of the exported policy,
    ``description`` its contract; ``groups`` are the observation groups that it reads.
    """
    _check(description)
    cfg = env.cfg
    terms = [term for group in groups for term in _terms_of(trained, group)]
    scans = [term.params.get("trunk_height", 0.3) for name, term in terms if name == "height_scan"]
    terrain = build_terrain(_terrain_of_page(cfg.terrain))
    model, assets = read_model(file_to_draw(env.robot.model_path), terrain.ground if terrain else None)
    actuator = cfg.control.actuator
    return PageRobot(
        name=str(description["task"]),
        model=model,
        assets={name: pack(content) for name, content in assets.items()},
        onnx=pack(onnx),
        timestep=cfg.sim.dt,
        substeps=cfg.sim.decimation,
        contact_impedance=cfg.sim.contact_impedance,
        armature=_per_joint(env, actuator.armature, "armature"),
        joint_friction=_per_joint(env, actuator.friction, "friction"),
        noise={name: term.noise for name, term in terms},
        scan_height=scans[0] if scans else None,
        ground=_ground_of_page(terrain) if terrain else None,
        card=[PageFact(name, value) for name, value in facts.items()],
    )


def _check(description: Mapping[str, Any]) -> None:
    terms = [term["name"] for term in description["observations"]]
    unknown = [name for name in terms if name not in TERMS]
    if unknown:
        raise ValueError(f"a page does not compute the observation {unknown[0]}; it has {', '.join(TERMS)}")
    others = [name for name in description["inputs"] if name not in _INPUTS]
    if others:
        raise ValueError(f"a page has no images, and the policy has the input {others[0]}")
    kind = description["actuator"].get("type")
    if kind not in ("pd", "dc_motor"):
        raise ValueError(f"a page simulates the actuators pd and dc_motor, and the task has {kind}")


def _terms_of(cfg: LeggedRobotConfig, group: str) -> Iterator[Any]:
    """Yield the name of the function of each term of a group, and the term."""
    for name, term in cfg.observations[group].terms.items():
        if isinstance(term, ObservationTerm):
            yield term.func or name, term


def _per_joint(env: LeggedRobot, values: Any, name: str) -> List[float]:
    """Return a setting of the joints; an empty list if it is that of the model."""
    return [] if values is None else list(values_by_name(values, env.sim.joint_names, f"env.control.actuator.{name}"))


def _terrain_of_page(cfg: TerrainConfig) -> TerrainConfig:
    """Return a small terrain: one column of tiles of each type, of few levels from the first to the last."""
    types = {name: replace(kind, share=1.0) for name, kind in cfg.all_types.items()}
    num_levels = cfg.num_levels if cfg.level >= 0 else min(cfg.num_levels, _LEVELS)
    return replace(
        cfg, types=types, num_columns=max(1, len(types)), num_levels=num_levels, max_start_level=0, border=2.0
    )


def _ground_of_page(terrain: Terrain) -> PageGround:
    ground = terrain.ground
    rows, columns = ground.heights.shape
    return PageGround(
        heights=pack(np.ascontiguousarray(ground.heights, dtype="<f4").tobytes()),
        rows=rows,
        columns=columns,
        cell=ground.cell,
        origin=ground.origin,
        starts=list(_starts(terrain)),
    )


def _starts(terrain: Terrain) -> Iterator[PageStart]:
    """Yield the middle of each tile, the types one after the other and the easiest first."""
    num_rows = len(terrain.origins)
    for column, kind in enumerate(terrain.column_types):
        for row in range(num_rows):
            name = f"{terrain.types[kind]}, {row + 1} of {num_rows}".replace("_", " ")
            x, y, z = map(float, terrain.origins[row, column])
            yield PageStart(name, (x, y, z))


def describe_training(run: Path, checkpoint: Path, cfg: Any, env_steps: int, licence: str) -> Dict[str, str]:
    """Return the lines of the card of a policy."""
    gate = ", ".join(f"{name} {limit:g}" for name, limit in cfg.env.gate.items())
    facts = {
        "Task": cfg.task,
        "Checkpoint": checkpoint.stem,
        "Seed": str(cfg.seed),
        "Samples": f"{env_steps:,}",
        "Gate": gate,
        **_measured(run),
        "Licence": licence or "not stated",
    }
    return {name: value for name, value in facts.items() if value}


def _measured(run: Path) -> Dict[str, str]:
    """Return the newest evaluation of a training, from its metrics; nothing if there was none."""
    try:
        lines = (run / METRICS).read_bytes().splitlines()
    except OSError:
        return {}
    newest = next(filter(None, (parse_line(line) for line in reversed(lines) if b'"evaluation/' in line)), None)
    if newest is None:
        return {}
    values = {name.partition("/")[2]: x for name, x in newest.items() if name.startswith("evaluation/")}
    text = ", ".join(f"{name} {x:.3g}" for name, x in values.items())
    return {"Evaluation": f"iteration {newest['iteration']:.0f}: {text}"}
