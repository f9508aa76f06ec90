"""The identification of a robot: a leg of two joints with known parameters, on a stand."""

# pyright: reportAttributeAccessIssue=false
import csv
import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest

from rsl_rl.cli.main import main
from rsl_rl.config.identified import read_identified
from rsl_rl.contracts import Contract, write_contract
from rsl_rl.hardware.identification import identify, read_recording
from rsl_rl.hardware.identification.excitation import Limits, design
from rsl_rl.hardware.identification.fit import Fit, fit
from rsl_rl.hardware.identification.parameters import KINDS, layout_of
from rsl_rl.hardware.identification.report import report_html
from rsl_rl.hardware.identification.simulation import NOISE, Piece, Prediction, Worlds, on_stand_model

identification = importlib.import_module("rsl_rl.hardware.identification.identify")  # the function has this name too

LEG = """
<body name="{0}_thigh" pos="0 {1} 0">
  <joint name="{0}_hip" axis="0 1 0" range="-1.5 1.5"/>
  <inertial pos="0 0 -0.1" mass="1.0" diaginertia="0.004 0.004 0.001"/>
  <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02"/>
  <body name="{0}_shank" pos="0 0 -0.2">
    <joint name="{0}_knee" axis="0 1 0" range="-2.5 0"/>
    <inertial pos="0 0 -0.1" mass="0.3" diaginertia="0.001 0.001 0.0002"/>
    <geom name="{0}_foot" type="sphere" size="0.02" pos="0 0 -0.2"/>
  </body>
</body>"""
MODEL = f"""
<mujoco><compiler angle="radian" autolimits="true"/><default><geom contype="0" conaffinity="0"/>
<joint damping="0.05" armature="0.01"/><position kp="30" kv="0.7" forcerange="-20 20"/></default>
<worldbody><geom name="floor" type="plane" size="0 0 1" conaffinity="1"/>
<body name="trunk" pos="0 0 0.4"><freejoint/><inertial pos="0 0 0" mass="4" diaginertia="0.05 0.05 0.05"/>
{LEG.format("L", 0.1)}{LEG.format("R", -0.1)}</body></worldbody>
<contact><pair geom1="floor" geom2="L_foot"/><pair geom1="floor" geom2="R_foot"/></contact>
<actuator>{"".join(f'<position joint="{side}_{part}"/>' for side in "LR" for part in ("hip", "knee"))}</actuator>
</mujoco>"""
JOINTS = ("L_hip", "L_knee", "R_hip", "R_knee")
HIDDEN = {
    "armature": [0.02, 0.012, 0.015, 0.01],
    "motor_strength": [0.85, 1.0, 0.95, 1.05],
    "viscous_friction": [0.1, 0.2, 0.15, 0.1],
    "joint_friction": [0.2, 0.1, 0.3, 0.15],
    "encoder_offset": [0.03, -0.02, 0.0, 0.02],
}
DELAY, STEP, PERIOD = 0.012, 0.0005, 0.01


@pytest.fixture(scope="module")
def robot(tmp_path_factory):
    """The folder of a robot with its model and contract, and an excitation."""
    folder = tmp_path_factory.mktemp("robot")
    (folder / "robot.xml").write_text(MODEL)
    contract = Contract(
        inputs={"obs": (1, 8)},
        outputs={"actions": (1, 4)},
        control_period=0.02,
        observations=({"name": "joint_pos", "size": 4}, {"name": "joint_vel", "size": 4}),  # type: ignore[arg-type]
        joint_names=JOINTS,
        joint_signs=(1.0, 1.0, -1.0, 1.0),
        joint_zeros=(0.0, 0.1, 0.0, 0.0),
        default_joint_pos=(0.5, -1.0, 0.5, -1.0),
        action_scale=0.25,
        action_clip=None,
        stiffness=(30.0,) * 4,
        damping=(0.7,) * 4,
        torque_limits=(20.0,) * 4,
        quaternion_order="wxyz",
        imu_mounting=(1.0, 0.0, 0.0, 0.0),
        units={"joint_pos": "rad"},  # type: ignore[arg-type]
        joint_limits=((-1.5, 1.5), (-2.5, 0.0)) * 2,
        simulation={"model": str(folder / "robot.xml")},
    )
    write_contract(contract, folder / "policy.json")
    description = json.loads((folder / "policy.json").read_text())
    found = design(description, folder / "robot.xml", seconds=6.0, candidates=2)
    rng = np.random.default_rng(0)
    rows = simulate(folder / "robot.xml", found.targets, rng, noise=1.0)
    write_log(folder / "stand.csv", rows)
    return folder, description, found, rows


def simulate(path, targets, rng, noise):
    """Positions, velocities and targets of a robot with the hidden parameters that follows targets [T, J]."""
    model = on_stand_model(path)
    model.opt.timestep, model.opt.integrator = STEP, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model.dof_armature[:], model.dof_damping[:] = HIDDEN["armature"], HIDDEN["viscous_friction"]
    model.dof_frictionloss[:] = HIDDEN["joint_friction"]
    gain, offset = np.array(HIDDEN["motor_strength"]), np.array(HIDDEN["encoder_offset"])
    model.actuator_gainprm[:, 0], model.actuator_biasprm[:, 1] = 30 * gain, -30 * gain
    model.actuator_biasprm[:, 2] = -0.7 * gain
    data = mujoco.MjData(model)
    mujoco.mj_setConst(model, data)
    data.qpos[:] = targets[0]
    rows = []
    for i, target in enumerate(targets):
        late = targets[max(0, i - 2)], targets[max(0, i - 1)]  # a delay of 12 ms: the target before arrives 2 ms later
        pos, vel = data.qpos + offset, data.qvel.copy()
        rows.append(
            np.concatenate((pos + noise * rng.normal(0, 0.003, 4), vel + noise * rng.normal(0, 0.08, 4), target))
        )
        for values, seconds in zip(late, (DELAY - PERIOD, 2 * PERIOD - DELAY)):
            data.ctrl[:] = values - offset
            mujoco.mj_step(model, data, round(seconds / STEP))
    return np.array(rows)


def write_log(path, rows, times=None, names=JOINTS, torque=None):
    """Write rows of the policy's angles as the log of a robot whose R_hip turns the other way."""
    signs, zeros = np.array((1.0, 1.0, -1.0, 1.0)), np.array((0.0, 0.1, 0.0, 0.0))
    times = 5.0 + PERIOD * np.arange(len(rows)) if times is None else times
    header = ["time [s]", "base_quat.w", "base_quat.x", "base_quat.y", "base_quat.z"]
    units = {
        "joint_pos": "rad",
        "joint_vel": "rad/s",
        "target": "rad",
        **({} if torque is None else {"joint_torque": "N m"}),
    }
    header += [f"{kind}.{name} [{unit}]" for kind, unit in units.items() for name in names]
    with Path(path).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for i, (time, row) in enumerate(zip(times, rows)):
            pos, vel, target = np.split(row, 3)
            own = [signs * pos + zeros, signs * vel, signs * target + zeros]
            own += [] if torque is None else [signs * torque[i]]
            writer.writerow([f"{time:.6f}", 1, 0, 0, 0, *(f"{x:.9g}" for part in own for x in part)])


@pytest.fixture(scope="module")
def found(robot):
    folder, description, _, _ = robot
    return identify([read_recording(folder / "stand.csv", description)], description, folder / "robot.xml")


def test_identify_finds_hidden_parameters_within_its_intervals(found):
    assert found.supports == ("stand",)
    inside, errors = [], []
    for kind, truth in {**HIDDEN, "action_delay": [DELAY]}.items():
        for one, true in zip(found.of(kind), truth):
            if one.is_determined:
                inside.append(one.low <= true <= one.high)
                errors.append(abs(one.value - true) / one.parameter.spread)
    assert len(inside) >= 17  # of 21
    assert np.mean(inside) >= 0.8
    assert np.median(errors) < 0.05
    assert abs(found.of("action_delay")[0].value - DELAY) < 0.001
    assert found.error_after < 0.0035 < found.error_before


def test_identify_names_what_a_log_on_a_stand_cannot_tell(found):
    why = {one.parameter.label: one.why for one in found.estimates if not one.is_determined}
    for label in ("payload", "trunk_com of x", "trunk_com of z", "friction"):
        assert why[label] == "the trunk is fixed in every log"
    assert why["torque_limit of L_hip"].startswith("at most")


def test_what_a_stand_determines_is_known_for_the_log_of_a_walk(robot, found, monkeypatch):
    """The walk estimates the rest only, with the numbers of the stand; the result has each parameter once, in order."""
    folder, description, _, _ = robot
    layouts = []

    def found_by(recordings, description, model_path, on_stand, layout, progress):
        layouts.append(layout)
        if on_stand:
            return found
        rest = [one for one in found.estimates if not one.is_determined]
        walked = tuple(one._replace(value=one.parameter.nominal + 1.0, is_determined=True, why="") for one in rest)
        return replace(found, estimates=walked, logs=("walk",), supports=("floor",), error_after=0.3, error_before=0.4)

    supports = iter(("floor", "stand"))
    monkeypatch.setattr(identification, "_identify", found_by)
    monkeypatch.setattr(identification, "_support_of", lambda *_: next(supports))
    log = read_recording(folder / "stand.csv", description)
    joined = identify([log, log], description, folder / "robot.xml")
    whole, rest = layouts
    known = {one.parameter: one.value for one in found.estimates if one.is_determined}
    assert 0 < len(known) < len(whole.parameters)
    assert rest.parameters == tuple(one for one in whole.parameters if one not in known)
    values = rest.values(np.zeros(len(rest.parameters)))
    for parameter in whole.parameters:
        assert values[parameter.kind][list(parameter.places)] == known.get(parameter, parameter.nominal)
    assert [one.parameter for one in joined.estimates] == list(whole.parameters)
    assert all(one.value == known.get(one.parameter, one.parameter.nominal + 1.0) for one in joined.estimates)
    assert (joined.logs, joined.supports) == (("stand.csv", "walk"), ("stand", "floor"))
    assert joined.error_after == pytest.approx(np.sqrt((found.error_after**2 + 0.3**2) / 2))


def known_by(parameter, names):
    return parameter.kind in names or parameter.label in names


@pytest.mark.parametrize(
    "known", ((), ("motor_strength of L_hip",), ("motor_strength",), ("motor_strength", "encoder_offset"))
)
def test_walk_determines_no_offset_and_no_payload_unless_strengths_are_known(robot, monkeypatch, known):
    """However close the least squares are: a fit that knows all parameters to a thousandth of their spread."""
    folder, description, _, _ = robot
    worlds = SimpleNamespace(num_joints=4, gains=(np.full(4, 30.0), np.full(4, 0.7)))

    def fitted(sets, x, *_):
        count, nothing = len(x), np.zeros((1, len(x), len(x)))
        return Fit(np.zeros(count), [[]], 1e6 * np.eye(count), np.zeros((1, count)), nothing)

    monkeypatch.setattr(identification, "fit", fitted)
    monkeypatch.setattr(identification, "Worlds", lambda *_: worlds)
    monkeypatch.setattr(identification, "explained", lambda worlds, pieces, x, most: (pieces, []))
    for name, value in (("_require_explained", None), ("_traces", ((), (0.0, 0.0)))):
        monkeypatch.setattr(identification, name, lambda *_, value=value: value)
    for name in ("_with_limits", "_without_idle_limits"):
        monkeypatch.setattr(identification, name, lambda sets, layout, result: result.x)
    monkeypatch.setattr(identification, "_with_delay", lambda sets, layout: np.zeros(len(layout.parameters)))
    nominal = {kind: np.zeros(3 if one.size == "xyz" else 1) for kind, one in KINDS.items() if one.size != "joints"}
    nominal.update({kind: np.ones(4) for kind, one in KINDS.items() if one.size == "joints"})
    layout = layout_of(nominal, description, 3.0)
    layout = layout.with_known({one: 1.0 for one in layout.parameters if known_by(one, known)})
    log = read_recording(folder / "stand.csv", description)
    walk = identification._identify([log], description, folder / "robot.xml", False, layout, lambda line: None)
    undetermined = {one.parameter.kind: one.why for one in walk.estimates if not one.is_determined}
    expected = {
        "encoder_offset": "a log of walking does not tell it",
        "payload": "the strength of the motors is not known from a log on a stand",
    }
    expected = {kind: why for kind, why in expected.items() if kind not in known}
    if "motor_strength" in known:  # of all motors
        del expected["payload"]
    assert undetermined == expected


def test_prediction_with_steps_ten_times_as_long_follows_the_motion(robot):
    folder, description, motion, _ = robot
    rows = simulate(folder / "robot.xml", motion.targets[:410], np.random.default_rng(0), noise=0.0)
    write_log(folder / "clean.csv", rows)
    recording = read_recording(folder / "clean.csv", description)
    for step in (0.005, 0.0025):
        layout, worlds = _worlds(folder, description, step)
        values = {**HIDDEN, "action_delay": [DELAY]}
        x = np.array([
            (values[one.kind][one.places[0]] - one.nominal) / one.spread if one.kind in values else 0.0
            for one in layout.parameters
        ])  # fmt: skip
        piece = Piece(recording, 6, 200)
        (one,) = worlds.predict([piece], x, worlds.start_states([piece]), "none")
        error = np.sqrt(np.mean(one.residual[one.channel == 0] ** 2))
        assert error < 4e-4, (
            step
        )  # rad; the motion is 0.4 rad, and 0.0025 rad is the error of targets half a step early


def _worlds(folder, description, step):
    from rsl_rl.evaluation.doctor.replay import Replay

    replay = Replay(folder / "robot.xml", description, JOINTS, step)
    layout = layout_of(Worlds.nominal_of(replay), description, 6.6)
    return layout, Worlds(folder / "robot.xml", description, layout, True, step)


def test_derivatives_of_chains_that_share_a_world_are_those_of_each_alone(robot):
    folder, description, _, _ = robot
    layout, worlds = _worlds(folder, description, 0.005)
    piece = Piece(read_recording(folder / "stand.csv", description), 10, 60)
    states, zero = worlds.start_states([piece]), np.zeros(len(layout.parameters))
    (shared,) = worlds.predict([piece], zero, states)
    for i in (layout.indices("armature")[1], layout.indices("motor_strength")[2]):
        moved = zero.copy()
        moved[i] = 0.02
        (alone,) = worlds.predict([piece], moved, states, "none")
        np.testing.assert_allclose((alone.residual - shared.residual) / 0.02, shared.by_parameters[:, i], atol=1e-9)


def bad_logs(rows):
    """Logs that cannot serve, and what the error says."""
    times = 5.0 + PERIOD * np.arange(len(rows))
    jump = np.where(np.arange(len(rows)) > 300, times + 100.0, times)
    keep = np.sort(np.random.default_rng(0).choice(len(rows), int(0.7 * len(rows)), replace=False))
    still = np.repeat(rows[:1], len(rows), axis=0)
    held = rows.copy()
    held[:, :4] = held[np.arange(len(rows)) // 3 * 3, :4]
    yield "short", dict(rows=rows[:200]), "is too short: 2 s"
    yield "quiet", dict(rows=still), "is too quiet"
    yield "dropped", dict(rows=rows[keep], times=times[keep]), "of the rows are missing"
    yield "jump", dict(rows=rows, times=jump), "the clock jumps by 100 s"
    yield "repeated", dict(rows=held), "the joint positions repeat"
    yield "other robot", dict(rows=rows, names=("a", "b", "c", "d")), "give the log of this robot"
    yield (
        "other motion",
        dict(rows=np.concatenate((rows[::-1, :8], rows[:, 8:]), axis=1)),
        "does not explain the motion",
    )


def test_bad_log_is_one_line_and_nothing_is_written(robot, tmp_path, capsys):
    folder, _, _, rows = robot
    for name, log, message in bad_logs(rows):
        write_log(tmp_path / "bad.csv", **log)
        out, report = tmp_path / "identified.yaml", tmp_path / "report.html"
        argv = ["identify", str(tmp_path / "bad.csv"), "--contract", str(folder / "policy.json")]
        assert main([*argv, "--out", str(out), "--report", str(report)]) == 2, name
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1, (name, error)
        assert not out.exists() and not report.exists()


def test_command_writes_file_report_and_json(robot, tmp_path, capsys):
    folder, _, _, _ = robot
    out, report = tmp_path / "found.yaml", tmp_path / "report.html"
    argv = ["identify", str(folder / "stand.csv"), "--contract", str(folder / "policy.json"), "--support", "stand"]
    assert main([*argv, "--per", "group", "--out", str(out), "--report", str(report)]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert json.loads(last)["file"] == str(out)
    assert report.read_text().count("data:image/png") == 1
    written = read_identified(out)
    assert written.parameters["armature"]["L_hip"] == written.parameters["armature"]["R_hip"]
    assert "payload" in written.undetermined


def test_page_without_matplotlib_says_what_to_install(found, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    page = report_html("a leg", found)
    assert "No plots: " in page and "rsl-rl-lib[identify]" in page and "data:image/png" not in page
    assert "armature of L_hip" in page


def test_log_with_a_gap_is_cut_there(robot, tmp_path):
    _, description, _, rows = robot
    keep = [i for i in range(len(rows)) if not 300 <= i < 310]
    write_log(tmp_path / "gap.csv", rows[keep], 5.0 + PERIOD * np.array(keep))
    recording = read_recording(tmp_path / "gap.csv", description)
    assert recording.pieces == ((0, 300), (300, 590))


def test_actuator_of_another_kind_is_refused(robot):
    folder, description, _, _ = robot
    recording = read_recording(folder / "stand.csv", description)
    with pytest.raises(ValueError, match="the contract's actuator is dc_motor"):
        identify([recording], {**description, "actuator": {"type": "dc_motor"}}, folder / "robot.xml")


def test_excitation_keeps_its_limits(robot):
    _, description, motion, _ = robot
    low, high = np.array(description["joint_limits"]).T
    assert (motion.targets > low).all() and (motion.targets < high).all()
    assert motion.torque_share <= 0.5 and motion.speed <= 10.0
    assert np.abs(np.diff(motion.targets[:3], axis=0)).max() < 0.01  # it begins at rest


def test_excitation_of_a_pose_beyond_the_torque_share_is_a_value_error(robot):
    folder, description, _, _ = robot
    with pytest.raises(
        ValueError, match=r"the pose alone needs [34]\.\d % of the torque limits, 2 % are allowed: give"
    ):
        design(description, folder / "robot.xml", seconds=6.0, limits=Limits(torque_share=0.02), candidates=1)


@pytest.mark.slow
def test_stiffness_of_a_contract_with_other_gains_changes_what_is_found(robot):
    """The strength is relative to the contract's gains."""
    folder, description, _, _ = robot
    recording = read_recording(folder / "stand.csv", description)
    softer = {**description, "stiffness": [24.0] * 4, "damping": [0.56] * 4}
    found = identify([recording], softer, folder / "robot.xml", support="stand")
    strengths = [one.value for one in found.of("motor_strength")]
    np.testing.assert_allclose(np.multiply(strengths, 0.8), HIDDEN["motor_strength"], rtol=0.06)


def test_covariance_of_residuals_that_depend_on_each_other_is_the_spread_of_estimates_without_a_block():
    rng = np.random.default_rng(1)
    blocks = [rng.normal(size=(20, 3)) for _ in range(8)]
    answers = [a @ [0.5, -0.3, 0.2] + rng.normal() + 0.1 * rng.normal(size=20) for a in blocks]

    def solved(members):
        whole = sum((blocks[i].T @ blocks[i] for i in members), start=np.eye(3))  # 1: the prior
        return np.linalg.solve(whole, sum(blocks[i].T @ answers[i] for i in members))

    x = solved(range(8))
    shares = np.array([a.T @ a for a in blocks])
    scores = np.array([a.T @ (a @ x - y) for a, y in zip(blocks, answers)])
    without = np.array([solved([i for i in range(8) if i != left]) for left in range(8)])
    expected = 7 / 8 * ((without - x) ** 2).sum(axis=0)
    plain = np.diag(np.linalg.inv(shares.sum(axis=0) + np.eye(3)))
    covariance = Fit(x, [], shares.sum(axis=0), scores, shares).covariance
    np.testing.assert_allclose(np.diag(covariance), np.maximum(plain, expected), rtol=1e-9)
    assert (expected > plain).any()


class LinearWorlds:
    """Pieces on the floor whose residuals are linear in two parameters and two numbers of the start state."""

    on_stand = False

    def __init__(self, rng, truth, pieces, wrong):
        self.by_parameters, self.by_state = rng.normal(size=(2, pieces, 60, 2))
        noise = np.where(np.arange(pieces) < wrong, 50.0, 1.0)[:, None] * rng.normal(size=(pieces, 60))
        self.answers = self.by_parameters @ truth + self.by_state @ [0.3, -0.2] + 0.1 * noise

    def start_states(self, pieces):
        return [np.zeros(2) for _ in pieces]

    def predict(self, pieces, x, states, by="all"):
        for piece, state in zip(pieces, states):
            i = piece.start // 10
            residual = self.by_parameters[i] @ x + self.by_state[i] @ state - self.answers[i]
            derivatives = self.by_parameters[i] if by == "all" else np.zeros((60, 0))
            scale, rows = NOISE["joint_pos"], np.repeat(np.arange(10), 6)
            yield Prediction(scale * residual, np.zeros(60, int), rows, scale * derivatives, scale * self.by_state[i])


def test_fit_counts_pieces_that_are_not_explained_little_and_its_spread_is_honest():
    recording = SimpleNamespace(time=0.02 * np.arange(200))
    pieces = [Piece(recording, 10 * i, 10 * i + 10) for i in range(12)]  # type: ignore[arg-type]
    truth, errors, deviations = np.array([0.7, -0.4]), [], []
    for seed in range(20):
        worlds = LinearWorlds(np.random.default_rng(seed), truth, len(pieces), wrong=3)
        found = fit([(worlds, pieces)], np.zeros(2), np.full(2, -9.0))  # type: ignore[list-item]
        errors.append(found.x - truth)
        deviations.append(np.sqrt(np.diag(found.covariance)))
    assert np.sqrt(np.mean(np.square(errors))) < 0.01
    assert np.mean(np.abs(errors) < 1.645 * np.array(deviations)) > 0.8
    assert np.mean(deviations) < 0.01
