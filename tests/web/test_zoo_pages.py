"""Pages of the zoo in Chromium: each robot walks for 20 s, answers, falls when it is pushed hard and starts again."""

from pathlib import Path

import pytest

from rsl_rl.cli.experiments import import_shipped
from rsl_rl.viz.page import TEMPLATE
from rsl_rl.zoo.entries import Zoo

if not TEMPLATE.is_file():
    pytest.skip("the page is not built: make page", allow_module_level=True)

GAMEPAD = "navigator.getGamepads = () => [{connected: true, axes: [0, window.stick ?? 0, 0, 0], buttons: []}];"
ZOO = Zoo(Path(str(import_shipped("rsl_rl_zoo").__file__)).parent)
KINDS = ("go2_flat_blind", "g1_flat", "go2_rough", "solo12_flat")
"""A GRU, a gait clock of a biped, a terrain and an adopted robot: these run in every test."""
SPEED = 0.8  # [m/s]
LARGEST_ERROR = {"anymal_c_flat": 0.15, "go2_rough": 0.15, "h1_flat": 0.2, "anymal_c_rough": 0.25}
"""Mean distance from the commanded velocity [m/s] of policies that follow it less well; 0.1 for the others."""


@pytest.mark.parametrize(
    "name", [name if name in KINDS else pytest.param(name, marks=pytest.mark.slow) for name in ZOO.names()]
)
def test_page_of_the_zoo_walks_answers_and_falls(name, rsl_rl_here, visit, tmp_path):
    path = tmp_path / "walk.html"
    assert rsl_rl_here("zoo", "page", name, str(path)) == 0
    with visit(path, script=GAMEPAD) as tab:
        tab.evaluate("robotPage.act('pause')")
        low, high = tab.evaluate("robotPage.current.policy.commandRange[0]")
        walk = tab.evaluate(f"robotPage.simulate(20, [{min(SPEED, high)}, 0, 0])")
        assert walk["falls"] <= (name == "anymal_c_rough")  # which meets stairs
        assert walk["error"] < LARGEST_ERROR.get(name, 0.1)
        tab.keyboard.down("w")
        assert tab.evaluate("robotPage.wantedCommand()") == [high, 0, 0]
        tab.keyboard.up("w")
        tab.evaluate("window.stick = 1")
        assert tab.evaluate("robotPage.wantedCommand()") == [low, 0, 0]
        tab.evaluate("window.stick = 0")
        tab.evaluate("robotPage.push(0, 9)")
        assert tab.evaluate("robotPage.simulate(2, [0, 0, 0])")["falls"] == 1
        tab.evaluate("robotPage.simulate(3, [0, 0, 0])")
        assert tab.evaluate("robotPage.current.fallen") <= 0
