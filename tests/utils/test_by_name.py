"""Values by name pattern."""

import pytest

from rsl_rl.utils.by_name import values_by_name

NAMES = ("FL_hip_joint", "FL_knee_joint", "FR_hip_joint", "FR_knee_joint")


def test_number_is_the_value_of_every_name():
    assert values_by_name(30.0, NAMES, "gains") == (30.0,) * 4


def test_pattern_matches_whole_names():
    assert values_by_name({".*_hip_joint": 1.0, "F[LR]_knee_.*": 2.0}, NAMES, "gains") == (1.0, 2.0, 1.0, 2.0)


@pytest.mark.parametrize(
    ("value", "message"),
    (
        ({".*hip": 1.0, ".*": 2.0}, "gains: '.*hip' matches none of FL_hip_joint, .*correct the pattern"),
        (
            {".*_hip_joint": 1.0},
            r"gains: the name FL_knee_joint matches none of '\.\*_hip_joint'; give each name exact",
        ),
        ({".*": 1.0, "FR.*": 2.0}, r"gains: the name FR_hip_joint matches '\.\*' and 'FR\.\*'; give each name exactly"),
        ({"(": 1.0, ".*": 2.0}, r"gains: '\(' is not a regular expression"),
        ({}, "gains is empty; give a number"),
    ),
)
def test_each_name_needs_exactly_one_pattern(value, message):
    with pytest.raises(ValueError, match=message):
        values_by_name(value, NAMES, "gains")
