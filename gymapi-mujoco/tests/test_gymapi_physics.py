"""The physics of the interface has the closed form of checks/physics.py, at its tolerances."""

import sys
from pathlib import Path

import pytest

CHECKS = Path(__file__).resolve().parents[1] / "checks"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "isaacgym-physics.md"


@pytest.fixture
def physics(gymapi, monkeypatch):
    monkeypatch.syspath_prepend(str(CHECKS))
    monkeypatch.delitem(sys.modules, "physics", raising=False)
    import physics

    return physics


def test_every_quantity_is_within_its_tolerance(physics, engine):
    beyond = [physics.line(one, got) for one, got, good in physics.rows(physics.CASES) if not good]
    assert not beyond, "\n".join(beyond)


def test_page_has_the_rows_of_the_table(physics):
    shown = [row.split(" | ") for row in PAGE.read_text().splitlines() if row.startswith("| ")]
    shown = {cells[0][2:]: cells for cells in shown}
    for one in physics.CASES:
        cells = shown[one.name]
        assert [cells[2], cells[5]] == [physics.number(one.expected), physics.number(one.tolerance)], one.name
        assert abs(float(cells[3]) - one.expected) <= one.tolerance * 1.001 + 1e-4 * abs(one.expected), one.name
