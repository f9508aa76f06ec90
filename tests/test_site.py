"""The hooks that put pages in which policies walk, and the cards of the zoo, into the site of docs/."""

import importlib.util
import re

import pytest

from rsl_rl.viz import page
from rsl_rl.viz.page import PageRobot, write_page
from rsl_rl.zoo.entries import Zoo
from tests.zoo.example_entry import write_example


def load(path):
    """Import a hook, which is in no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def hook(root, tmp_path, monkeypatch):
    """The hook, with a page of its own that is to be written."""
    module = load(root / "docs" / "config" / "walk.py")
    monkeypatch.setattr(module, "PAGE", tmp_path / "build" / "walk.html")
    template = tmp_path / "template.html"
    template.write_bytes(b'<script type="application/json" id="page-data">{}</script>')
    monkeypatch.setattr(page, "TEMPLATE", template)
    return module


def write_robots(path, *names):
    for i, name in enumerate(names):
        write_page(path, PageRobot(name, "<mujoco/>", {}, "", 0.005, 4, 0.0, [], [], {}, None, None, []), added=i > 0)


MARKED = "before\n\n<!-- walk go2_flat -->\n\n<!-- walk g1_flat -->\n\nafter"


def test_site_without_a_page_says_once_how_to_write_one(hook, tmp_path):
    shown = hook.on_page_markdown(MARKED)
    assert shown.count("rsl-rl play --task go2_flat") == 1 and "<!--" not in shown and "iframe" not in shown
    hook.on_post_build({"site_dir": str(tmp_path)})
    assert not (tmp_path / "walk.html").exists()


def test_site_with_a_page_has_its_policies_at_the_marked_places(hook, tmp_path):
    write_robots(hook.PAGE, "go2_rough", "g1_flat")
    shown = hook.on_page_markdown(MARKED)
    assert re.findall(r'<iframe src="([^"]+)"', shown) == ["walk.html#robot=1&command=0.5%2C0%2C0"]
    assert "Drive g1_flat in this page, 0.0 MB" in shown and "go2_flat" not in shown
    (tmp_path / "site").mkdir()
    hook.on_post_build({"site_dir": str(tmp_path / "site")})
    assert (tmp_path / "site" / "walk.html").read_bytes() == hook.PAGE.read_bytes()


def test_every_place_of_a_policy_names_a_task(root):
    from configs import EXPERIMENTS

    places = {
        name for file in (root / "docs").glob("*.md") for name in re.findall(r"<!-- walk (\w+) -->", file.read_text())
    }
    assert "go2_flat" in places and places <= set(EXPERIMENTS.names())


def test_site_has_the_cards_and_films_of_the_zoo(root, tmp_path):
    module = load(root / "docs" / "config" / "zoo_cards.py")
    module.ZOO = Zoo(tmp_path / "zoo")
    write_example(tmp_path / "zoo", "dog", film="film.webp", film_content=b"frames")
    write_example(tmp_path / "zoo", "cat", licence="<b>free</b>")
    shown = module.on_page_markdown("before\n\n<!-- zoo -->\n\nafter")
    assert re.findall(r'<img src="([^"]+)"', shown) == ["zoo/dog.webp"]
    assert "<strong>cat</strong>" in shown and "&lt;b&gt;free" in shown and "2.7 M samples in 3 min" in shown
    module.on_post_build({"site_dir": str(tmp_path)})
    assert (tmp_path / "zoo" / "dog.webp").read_bytes() == b"frames"
