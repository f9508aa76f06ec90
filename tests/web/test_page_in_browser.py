"""The page in Chromium: the robot walks, answers, falls and starts again; no error, no request, no foreign script."""

import gzip
import json
import struct
from base64 import b64decode
from dataclasses import replace
from xml.etree import ElementTree

import mujoco
import numpy as np
import pytest
import torch

from deploy.onnx_policy import OnnxPolicy
from rsl_rl.robots import ROBOTS
from rsl_rl.terrain.ground import GridGround
from rsl_rl.utils.height_field import HeightField
from rsl_rl.viz.page import PageFact, PageGround, PageStart, pack, write_page
from rsl_rl.viz.page_model import read_model

PARITY = 1e-5  # of joint targets [rad]

GAMEPAD = """
navigator.getGamepads = () => [{connected: true, axes: [0, window.stick ?? 0, 0, 0],
    buttons: [{pressed: window.button ?? false}]}];
"""


def test_page_of_a_trained_robot_follows_a_command_without_falls(page_file, visit, root, run_script, tmp_path):
    with visit(page_file) as tab:
        result = tab.evaluate("robotPage.simulate(20, [0.8, 0, 0])")
        place = tab.evaluate("[...robotPage.current.data.qpos]")
    (tmp_path / "commands.json").write_text("[[[0.8, 0, 0], [0.8, 0, 0]]]")
    onnx, commands = str(root / "tests" / "web" / "go2_flat.onnx"), str(tmp_path / "commands.json")
    in_python = json.loads(run_script("deploy/sim_to_sim.py", onnx, "--commands", commands).stdout)
    assert result["falls"] == in_python["fall_rate"] == 0
    assert result["error"] < 0.1  # [m/s]
    assert result["error"] == pytest.approx(in_python["lin_vel_error"], abs=0.005)  # the page adds nothing to it
    assert place[0] > 0.8 * 20 - 2.0  # it did walk [m]
    assert page_file.stat().st_size < 8e6


def test_page_answers_keys_and_gamepad(page_file, visit):
    with visit(page_file, script=GAMEPAD) as tab:
        command = "robotPage.wantedCommand()"
        assert tab.evaluate(command) == [0, 0, 0]
        tab.keyboard.down("w")
        tab.keyboard.down("ArrowLeft")
        low, high = tab.evaluate("robotPage.current.policy.commandRange[0]")
        assert tab.evaluate(command) == [high, 0, tab.evaluate("robotPage.current.policy.commandRange[2][1]")]
        tab.keyboard.up("w")
        tab.keyboard.up("ArrowLeft")
        tab.evaluate("window.stick = 1")  # backward
        assert tab.evaluate(command) == [low, 0, 0]
        tab.evaluate("window.stick = 0.05")  # a stick that is not exactly in the middle
        assert tab.evaluate(command) == [0, 0, 0]
        tab.keyboard.press("Space")
        assert tab.inner_text("#pause") == "Go on"
        before = tab.evaluate("robotPage.current.time")
        tab.keyboard.press(".")
        assert tab.evaluate("robotPage.current.time") == pytest.approx(before + 0.02)
        velocity = "[...robotPage.current.data.qvel.subarray(0, 2)]"
        before = np.array(tab.evaluate(velocity))
        tab.evaluate("window.button = true")
        for _ in range(200):  # the next frame reads the buttons
            tab.wait_for_timeout(50)
            change = np.linalg.norm(tab.evaluate(velocity) - before)
            if change > 0:
                break
        assert change > 0.5  # pushed by the gamepad's button [m/s]


def test_page_in_a_frame_that_may_not_use_gamepads_runs(page_file, visit):
    with visit(page_file, script="navigator.getGamepads = () => { throw new DOMException('disallowed') }") as tab:
        tab.keyboard.down("w")
        assert tab.evaluate("robotPage.wantedCommand()[0] > 0")
        assert tab.inner_text("#message") == ""


def test_page_robot_that_is_pushed_hard_falls_and_starts_again(page_file, visit):
    with visit(page_file) as tab:
        tab.evaluate("robotPage.act('pause')")
        assert tab.evaluate("robotPage.simulate(2, [0, 0, 0])")["falls"] == 0
        tab.evaluate("robotPage.push(0, 9)")
        assert tab.evaluate("robotPage.simulate(2, [0, 0, 0])")["falls"] == 1
        assert tab.evaluate("robotPage.simulate(10, [0.5, 0, 0])")["falls"] <= 1  # a fall of the step before, at most
        assert tab.evaluate("robotPage.current.fallen") <= 0
        assert tab.evaluate("robotPage.current.height()") > 0.2
        tab.evaluate("robotPage.showStatus()")
        assert tab.inner_text("#falls") == str(tab.evaluate("robotPage.current.falls"))


def test_page_robot_is_pulled_by_the_mouse_until_it_is_let_go(page_file, visit):
    with visit(page_file) as tab:
        tab.evaluate("robotPage.act('pause')")
        x, y = tab.evaluate("""(() => {
            for (let y = 40; y < innerHeight; y += 5) {
                for (let x = 200; x < 600; x += 5) {
                    if (robotPage.scene.grab(robotPage.current, x, y)?.body === 1) return [x, y]; // the trunk
                }
            }
        })()""")
        place = "robotPage.current.data.qpos[2]"
        force = "robotPage.current.data.xfrc_applied.reduce((sum, each) => sum + Math.abs(each), 0)"
        before = tab.evaluate(place)
        tab.mouse.move(x, y)
        tab.mouse.down()
        tab.mouse.move(x, y - 60)
        tab.evaluate("(() => { for (let i = 0; i < 15; i++) robotPage.advance(); })()")
        assert tab.evaluate(force) > 0
        assert tab.evaluate(place) > before + 0.1  # lifted [m]
        tab.mouse.up()
        assert tab.evaluate(force) == 0


def test_page_settings_are_in_the_link_and_change_the_physics(page_file, visit):
    link = "#command=0.4,0,0&friction=0.3&payload=5&strength=0.9&delay=20&noise=1&slope=10"
    with visit(page_file, link) as tab:
        conditions = tab.evaluate("robotPage.current.conditions")
        friction = tab.evaluate("[...robotPage.current.model.pair_friction]")
        gravity = tab.evaluate("[...robotPage.current.model.opt.gravity]")
        mass = tab.evaluate("robotPage.current.model.body_mass[1]")
        tab.evaluate("robotPage.writeLink()")
        written = tab.evaluate("decodeURIComponent(location.hash)")
    assert conditions == {"friction": 0.3, "payload": 5, "strength": 0.9, "delay": 20, "noise": 1, "slope": 10}
    assert friction[0::5] == [0.3] * (len(friction) // 5)
    assert gravity == pytest.approx([-9.81 * np.sin(np.radians(10)), 0, -9.81 * np.cos(np.radians(10))])
    with visit(page_file) as tab:
        assert mass == pytest.approx(tab.evaluate("robotPage.current.model.body_mass[1]") + 5)
    assert set(written[1:].split("&")) == set(link[1:].split("&"))


def test_page_settings_that_make_no_sense_in_the_link_are_left_out(page_file, visit):
    link = "#robot=99&friction=NaN&payload=1e999&start=-1&command=x,,&delay=<img src=x onerror=alert(1)>"
    with visit(page_file, link) as tab:
        assert tab.evaluate("robotPage.current.conditions") == tab.evaluate("robotPage.current.nominal")
        assert tab.evaluate("robotPage.simulate(2, [0.5, 0, 0]).falls") == 0


def test_page_policy_has_the_joint_targets_of_onnx_policy(page_file, visit, root):
    """Along a walk that the page recorded: commands that change, and the readings of each step."""
    record = """(() => {
        const {policy} = robotPage.current, original = policy.step.bind(policy), steps = [];
        policy.step = (command, readings) => {
            const targets = original(command, readings);
            const [quat] = [[...robotPage.current.data.qpos.subarray(3, 7)]];
            steps.push({command, quat, readings, targets: [...targets]});
            return targets;
        };
        robotPage.current.reset();
        for (const command of [[0.8, 0, 0], [-0.3, 0.2, 0.5], [0, 0, 0], [3, -3, 3]]) robotPage.simulate(2, command);
        return steps;
    })()"""
    with visit(page_file) as tab:
        tab.evaluate("robotPage.act('pause')")
        steps = tab.evaluate(record)
    policy = OnnxPolicy(root / "tests" / "web" / "go2_flat.onnx")
    assert len(steps) == 400
    for step in steps:
        readings = {name: step["readings"][name] for name in ("base_lin_vel", "base_ang_vel", "joint_pos", "joint_vel")}
        expected = policy(command=step["command"], base_quat=step["quat"], **readings)
        np.testing.assert_allclose(step["targets"], expected, atol=PARITY)


def test_page_physics_are_those_of_mujoco_in_python(page_file, visit, go2, tmp_path, root):
    """200 physics steps from the standing pose with constant targets. Without contacts, they differ by rounding.

    With contacts the two versions solve for the forces up to the tolerance of the solver, 1e-8 of a scaled cost, and
    contacts amplify differences.
    """
    robot = go2(tmp_path)
    height = {"in the air": 10.0, "on the floor": 0.32}
    command = """(height) => {
        const {model, data, policy} = robotPage.current;
        robotPage.act('pause');
        robotPage.current.reset();
        data.qpos[2] = height;
        const states = [];
        for (let i = 0; i < 50; i++) {
            robotPage.current.simulate(policy.description.default_joint_pos);
            states.push([...data.qpos, ...data.qvel]);
        }
        return states;
    }"""
    model = mujoco.MjModel.from_xml_string(robot.model)
    description = OnnxPolicy(root / "tests" / "web" / "go2_flat.onnx").description
    stiffness, damping = (np.array(description[name]) for name in ("stiffness", "damping"))
    model.actuator_gainprm[:, 0], model.actuator_biasprm[:, 1] = stiffness, -stiffness
    model.actuator_biasprm[:, 2] = -damping
    limits = np.array(description["torque_limits"])
    model.actuator_forcerange[:] = np.stack((-limits, limits), axis=1)
    with visit(page_file) as tab:
        states = {place: tab.evaluate(command, height[place]) for place in height}
    for place, tolerance in {"in the air": 1e-9, "on the floor": 1e-4}.items():
        data = mujoco.MjData(model)
        data.qpos[:3], data.qpos[7:] = (0, 0, height[place]), description["default_joint_pos"]
        data.ctrl[:] = description["default_joint_pos"]
        for state in states[place]:
            mujoco.mj_step(model, data, 4)
            np.testing.assert_allclose(state, [*data.qpos, *data.qvel], atol=tolerance, err_msg=place)


def stl(triangles):
    """A binary STL file of triangles [T, 3, 3] in metres."""
    faces = [struct.pack("<12fH", 0, 0, 0, *np.ravel(triangle), 0) for triangle in triangles]
    return bytes(80) + struct.pack("<I", len(faces)) + b"".join(faces)


def wedge(length, width, height):
    """Triangles of a body that is low in front (x) and high at the back."""
    low, high, (x, y) = -height, height, (length, width)
    a, b, c, d = (x, -y, low), (x, y, low), (-x, y, low), (-x, -y, low)
    e, f, g, h = (x, -y, low / 2), (x, y, low / 2), (-x, y, high), (-x, -y, high)
    quads = [(a, d, c, b), (e, f, g, h), (a, b, f, e), (b, c, g, f), (c, d, h, g), (d, a, e, h)]
    return [triangle for p, q, r, s in quads for triangle in ((p, q, r), (p, r, s))]


@pytest.fixture
def robot_with_meshes(go2, tmp_path):
    """The Go2 with a trunk and thighs drawn as meshes: a binary STL, and an OBJ that is scaled and turned."""
    folder = tmp_path / "robot"
    (folder / "meshes").mkdir(parents=True)
    (folder / "meshes" / "hull.stl").write_bytes(stl(wedge(0.3, 0.12, 0.07)))
    points, faces = np.unique(np.reshape(wedge(20, 15, 110), (-1, 3)), axis=0, return_inverse=True)
    lines = [f"v {x} {y} {z}" for x, y, z in points]
    lines += [f"f {i} {j} {k}" for i, j, k in np.reshape(faces, (-1, 3)) + 1]
    (folder / "meshes" / "thigh.obj").write_text("\n".join(lines) + "\n")
    root = ElementTree.parse(ROBOTS.load("go2").model_path).getroot()
    root.find("compiler").set("meshdir", "meshes")
    asset = root.find("asset")
    ElementTree.SubElement(asset, "mesh", {"name": "hull", "file": "hull.stl"})
    scale = {"scale": "0.001 0.001 0.001"}
    ElementTree.SubElement(asset, "mesh", {"name": "thigh", "file": "thigh.obj", **scale})
    look = {"type": "mesh", "group": "1", "mass": "0", "contype": "0", "conaffinity": "0"}
    for body in root.iter("body"):
        name = body.get("name")
        if name == "trunk":
            ElementTree.SubElement(body, "geom", {"name": "drawn", "mesh": "hull", "rgba": "0.1 0.5 0.8 1", **look})
        elif name and name.endswith("_thigh"):
            turned = {"pos": "0 0 -0.1", "euler": "0 0.1 0", "rgba": "0.9 0.4 0.1 1"}
            ElementTree.SubElement(body, "geom", {"name": f"drawn_{name}", "mesh": "thigh", **turned, **look})
    (folder / "robot.xml").write_text(ElementTree.tostring(root, encoding="unicode"))
    model, assets = read_model(folder / "robot.xml")
    return replace(
        go2(tmp_path), name="meshes", model=model, assets={n: pack(content) for n, content in assets.items()}
    )


def test_page_draws_the_meshes_of_a_robot_where_mujoco_has_them(page_file, visit, robot_with_meshes, tmp_path):
    write_page(tmp_path / "meshes.html", robot_with_meshes)
    drawn = """(() => {
        const {model, data} = robotPage.current;
        robotPage.act('pause');
        robotPage.mujoco.mj_forward(model, data); // a step ends with the places of its start
        robotPage.scene.draw(robotPage.current, []);
        const meshes = robotPage.scene.shapes.filter(({geom}) => model.geom_type[geom] === 7);
        return {pose: [...data.qpos], boxes: meshes.map(({mesh, geom}) => {
            const points = mesh.geometry.getAttribute('position'), vector = mesh.position.clone(), all = [];
            for (let i = 0; i < points.count; i++) {
                all.push(vector.fromBufferAttribute(points, i).applyMatrix4(mesh.matrix).toArray());
            }
            return {geom, points: all, color: mesh.material.color.getHexString()};
        })};
    })()"""
    with visit(tmp_path / "meshes.html") as tab:
        assert tab.evaluate("robotPage.simulate(2, [0.5, 0, 0])")["falls"] == 0
        result = tab.evaluate(drawn)
    packed = {name: gzip.decompress(b64decode(content)) for name, content in robot_with_meshes.assets.items()}
    model = mujoco.MjModel.from_xml_string(robot_with_meshes.model, packed)
    data = mujoco.MjData(model)
    data.qpos[:] = result["pose"]
    mujoco.mj_kinematics(model, data)
    assert [model.geom(each["geom"]).name for each in result["boxes"]] == [
        "drawn", *(f"drawn_{leg}_thigh" for leg in ("FL", "FR", "RL", "RR"))
    ]  # fmt: skip
    for each in result["boxes"]:
        geom = each["geom"]
        mesh = model.geom_dataid[geom]
        vertices = model.mesh_vert[model.mesh_vertadr[mesh] :][: model.mesh_vertnum[mesh]]
        expected = vertices @ data.geom_xmat[geom].reshape(3, 3).T + data.geom_xpos[geom]
        for reduce in (np.min, np.max):
            np.testing.assert_allclose(reduce(each["points"], axis=0), reduce(expected, axis=0), atol=1e-4)
        assert len(each["points"]) == 3 * 12
    assert result["boxes"][0]["color"] == "1a80cc"


HOSTILE = (
    '</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\' onclick="window.hacked=1" \u2028'
)


def test_page_with_hostile_names_runs_no_script(page_file, visit, go2, tmp_path):
    robot = replace(go2(tmp_path), name=HOSTILE, card=[PageFact(HOSTILE, HOSTILE), PageFact("__proto__", "x" * 10_000)])
    write_page(tmp_path / "hostile.html", robot)
    with visit(tmp_path / "hostile.html") as tab:
        assert tab.text_content("#title") == HOSTILE
        assert tab.evaluate("window.hacked ?? null") is None
        assert tab.evaluate("document.querySelectorAll('img, #card script').length") == 0


def test_page_runs_no_script_of_others(page_file, browser):
    with browser.new_page() as tab:
        tab.goto(f"file://{page_file}")
        added = """(() => {
            document.body.append(Object.assign(document.createElement("script"), {textContent: "window.hacked = 1"}));
            document.body.insertAdjacentHTML("beforeend", '<b id="handler" onclick="window.hacked = 1">b</b>');
            document.getElementById("handler").click();
            return window.hacked ?? null;
        })()"""
        assert tab.evaluate(added) is None


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"stiffness": [1e999] * 12}, "stiffness of the policy is not one finite number for each joint"),
        ({"joint_names": ["a"] * 12}, "the robot has the joints"),
        ({"observations": [{"name": "__proto__"}]}, "observations of the policy is not a list of terms"),
        ({"format": 3}, "format of the policy is not 1 or 2"),
        ({"history_order": "step"}, "observations of the policy is not without clipping and term by term"),
        ({"control_period": -1}, "control_period of the policy is not a positive number"),
        ({"simulation": None}, "simulation of the policy is not complete"),
        ({"inputs": {"obs": [1, 10**9]}}, "observations of the policy is not as long as the input"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_page_with_a_malformed_policy_says_in_one_line_what_is_wrong(
    page_file, visit, go2, tmp_path, change, complaint
):
    onnx = pytest.importorskip("onnx")
    robot = go2(tmp_path)
    model = onnx.load_from_string(gzip.decompress(b64decode(robot.onnx)))
    (name,) = change
    others = [entry for entry in model.metadata_props if entry.key != name]
    del model.metadata_props[:]
    model.metadata_props.extend([*others, onnx.StringStringEntryProto(key=name, value=json.dumps(change[name]))])
    write_page(tmp_path / "bad.html", replace(robot, onnx=pack(model.SerializeToString())))
    with visit(tmp_path / "bad.html") as tab:
        message = tab.inner_text("#message")
    assert message.startswith("This page cannot run: ")
    assert complaint in message
    assert "\n" not in message


def test_page_with_two_robots_switches_between_them(page_file, visit, go2, tmp_path):
    path, points = tmp_path / "two.html", [[0.23, 0.41], [-3.91, 4.87], [99.0, 0.0]]
    ground = HeightField(np.float32(0.1 * np.indices((81, 101)).sum(axis=0) % 0.3), 0.1, (-4.0, -5.0))
    robot = go2(tmp_path)
    shape = PageGround(pack(ground.heights.tobytes()), 81, 101, 0.1, (-4.0, -5.0), [PageStart("a", (1.0, 2.0, 0.3))])
    model, _ = read_model(ROBOTS.load("go2").model_path, ground)
    write_page(path, robot)
    write_page(path, replace(robot, name="rough", model=model, ground=shape), added=True)
    with visit(path) as tab:
        tab.select_option("#robot", label="rough")
        while tab.inner_text("#title") != "rough":
            tab.wait_for_timeout(100)
        x, y, z = tab.evaluate("[...robotPage.current.data.qpos.subarray(0, 3)]")
        heights = tab.evaluate(f"{points}.map(([x, y]) => robotPage.current.ground.heightAt(x, y))")
        rows, columns = tab.evaluate("[robotPage.current.model.hfield_nrow[0], robotPage.current.model.hfield_ncol[0]]")
    assert abs(x - 1.0) < 1.0 and abs(y - 2.0) < 1.0 and z > 0.3
    assert (rows, columns) == (101, 81)  # MuJoCo's rows are along y
    x, y = torch.tensor(points, dtype=torch.float32).T
    expected = GridGround(ground, torch.device("cpu")).height_at(x, y)
    assert heights == pytest.approx(expected.tolist(), abs=1e-3)  # of a point at the edge


def test_page_on_a_phone_has_joysticks_and_sections(page_file, visit):
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with visit(page_file, **phone) as tab:
        stick = tab.locator("#left-stick").bounding_box()
        middle = (stick["x"] + stick["width"] / 2, stick["y"] + stick["height"] / 2)
        tab.mouse.move(*middle)
        tab.mouse.down()
        tab.mouse.move(middle[0], stick["y"])
        assert tab.evaluate("robotPage.wantedCommand()")[0] == pytest.approx(
            tab.evaluate("robotPage.current.policy.commandRange[0][1]"), rel=0.05
        )
        tab.mouse.up()
        assert not tab.locator("#conditions").is_visible()
        tab.get_by_role("button", name="Conditions").click()
        assert tab.get_by_label("Friction").is_visible()
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_page_names_every_control_for_screen_readers(page_file, visit):
    with visit(page_file) as tab:
        unnamed = """[...document.querySelectorAll('button, select, input, canvas')]
            .filter((each) => !(each.innerText || each.ariaLabel || each.labels?.[0]?.innerText))
            .map((each) => each.outerHTML)"""
        assert tab.evaluate(unnamed) == []
        assert tab.evaluate("document.querySelectorAll('input[type=range]').length") == 9
