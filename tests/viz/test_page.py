"""The file of a page: what is written is what is read, nothing in it can end its script, and models stand alone."""

import json
import os
import re
import subprocess
import sys
from dataclasses import fields, replace

import mujoco
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsl_rl.robots import ROBOTS
from rsl_rl.utils.height_field import HeightField
from rsl_rl.utils.mujoco_model import load_model
from rsl_rl.viz import page
from rsl_rl.viz.page import PageData, PageFact, PageGround, PageMotion, PageRobot, PageStart, read_robots, write_page
from rsl_rl.viz.page_model import read_model

ROBOT = PageRobot(
    *("dog", "<mujoco/>", {}, "", 0.005, 4, 0.0, [], [], {"joint_pos": 0.01}, None),
    ground=PageGround("", 2, 2, 0.1, (0.0, 0.0), [PageStart("here", (0.0, 0.0, 0.0))]),
    card=[PageFact("Task", "dog")],
)

PAGE_TYPES = (PageData, PageRobot, PageGround, PageStart, PageFact, PageMotion)


@pytest.fixture
def template(tmp_path, monkeypatch):
    """A page without robots, as small as can be."""
    path = tmp_path / "template.html"
    path.write_bytes(b'<p>before</p><script type="application/json" id="page-data">{}</script><p>after</p>')
    monkeypatch.setattr(page, "TEMPLATE", path)
    return path


@given(name=st.text() | st.sampled_from(["</script>", "<!--<script>", "]]>", "\u2028"]))
def test_page_with_any_name_is_one_script_with_that_name(name, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "TEMPLATE", folder / "template.html")
        (folder / "template.html").write_bytes(
            b'<script type="application/json" id="page-data">{}</script><p>after</p>'
        )
        write_page(folder / "walk.html", replace(ROBOT, name=name, noise={name: 1.0}))
        content = (folder / "walk.html").read_bytes()
        (script,) = re.findall(rb"<script[^>]*>([^<>&]*)</script>", content)
        assert json.loads(script)["robots"][0]["name"] == name
        assert content.count(b"<") == 4
        assert read_robots(folder / "walk.html")[0]["noise"] == {name: 1.0}


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_page_with_a_number_that_is_not_finite_is_not_written(number, template, tmp_path):
    with pytest.raises(ValueError):
        write_page(tmp_path / "walk.html", replace(ROBOT, timestep=number))
    assert not (tmp_path / "walk.html").exists()


def test_page_add_keeps_others_and_replaces_the_same(template, tmp_path):
    path = tmp_path / "folder" / "walk.html"
    write_page(path, ROBOT)
    write_page(path, replace(ROBOT, name="cat"), added=True)
    write_page(path, replace(ROBOT, substeps=9), added=True)
    assert [(robot["name"], robot["substeps"]) for robot in read_robots(path)] == [("cat", 4), ("dog", 9)]
    write_page(path, ROBOT)
    assert [robot["name"] for robot in read_robots(path)] == ["dog"]


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"<html></html>", b'<script type="application/json" id="page-data">[]</script>'),
        b'<script type="application/json" id="page-data">' + b"[" * 100_000 + b"</script>",
    ],
)
def test_page_add_to_another_file_is_one_error(content, template, tmp_path):
    path = tmp_path / "other.html"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a page of policies of this version"):
        write_page(path, ROBOT, added=True)
    assert path.read_bytes() == content


def test_page_add_to_a_pipe_is_one_error(template, tmp_path):
    os.mkfifo(tmp_path / "walk.html")
    with pytest.raises(ValueError, match="is not a file"):
        write_page(tmp_path / "walk.html", ROBOT, added=True)


def test_page_without_its_template_says_make_page(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "TEMPLATE", tmp_path / "page.html")
    with pytest.raises(ValueError, match="build it with: make page"):
        write_page(tmp_path / "walk.html", ROBOT)


def test_page_types_of_typescript_are_those_of_python(root):
    done = subprocess.run(
        [sys.executable, "web/page_types.py"], cwd=root, capture_output=True, text=True, check=True, timeout=60
    )
    assert (root / "web" / "src" / "page_data.ts").read_text() == done.stdout
    names = [field.name for cls in PAGE_TYPES for field in fields(cls)]
    assert all(f"  {name}: " in done.stdout for name in names)


MAIN = """<mujoco model="parts">
  <compiler meshdir="meshes" texturedir="../textures" autolimits="true"/>
  <include file="shapes.xml"/>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 0.05" friction="0.7 0.02 0.01"/>
    <body name="box" pos="0 0 1"><freejoint/><include file="geom.xml"/></body>
  </worldbody>
</mujoco>"""
SHAPES = '<mujoco><asset><mesh file="wedge.obj"/></asset></mujoco>'
GEOM = '<mujoco><geom type="mesh" mesh="wedge" density="500"/></mujoco>'
WEDGE = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n"


def test_model_with_included_files_and_meshes_becomes_one_text(tmp_path):
    (tmp_path / "meshes").mkdir()
    for name, content in {"main.xml": MAIN, "shapes.xml": SHAPES, "geom.xml": GEOM, "meshes/wedge.obj": WEDGE}.items():
        (tmp_path / name).write_text(content)
    text, files = read_model(tmp_path / "main.xml")
    original = mujoco.MjModel.from_xml_path(str(tmp_path / "main.xml"))
    alone = mujoco.MjModel.from_xml_string(text, files)
    for name in ("body_mass", "body_inertia", "mesh_vert", "geom_friction", "geom_pos"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(original, name))
    assert alone.nmesh == 1 and str(tmp_path) not in text


def test_model_on_rough_ground_is_that_of_the_simulation():
    heights = np.random.default_rng(0).uniform(-0.2, 0.3, (21, 31)).astype(np.float32)
    ground, path = HeightField(heights, 0.1, (-1.0, -2.0)), ROBOTS.load("go2").model_path
    text, files = read_model(path, ground)
    own, simulated = mujoco.MjModel.from_xml_string(text, files), load_model(path, ground)
    for name in ("hfield_size", "hfield_nrow", "hfield_ncol", "geom_pos", "geom_type", "pair_friction", "body_mass"):
        np.testing.assert_allclose(getattr(own, name), getattr(simulated, name), atol=1e-12, err_msg=name)
