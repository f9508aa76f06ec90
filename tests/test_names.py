"""Names and phrases that the code and its documentation do not use, and what to write instead."""

import re

import pytest

FOLDERS = ("rsl_rl", "scripts", "configs", "benchmarks", "deploy", "docs")

NAMES = {
    "Coroner": "FaultReporter", "Guard": "StepValidator", "Judgement": "EvalResult", "Repetition": "SeedResult",
    "Clips": "VideoCallback", "Screen": "TeleopDisplay", "Motion": "RobotPoseVel", "FlightRecorder": "FaultRecorder",
    "GaitMeter": "GaitMetrics", "Flow": "ResetMasks", "Unrolling": "ChunkPlan", "PatientLogger": "RetryingLogger",
    "FirstEvents": "FirstOccurrence", "FilmQueue": "VideoQueue", "Case": "FaultDump", "Place": "Backend",
    "culprit": "offending_term", "numbers_of_motion": "state_buffers", "serves_here": "is_available",
    "let_cores_go": "set_omp_spincount", "go_on": "resume_run", "look_on": "attach_callbacks",
    "write_whole": "atomic_write", "require_plain": "check_serializable", "surely_none": "none_on_cpu",
    "surely_within": "all_within_on_cpu", "learn_in": "set_autocast_dtype", "peek_value": "evaluate_stateless",
    "going_on": "not_done", "step_if": "step_where_finite", "skipped_in_row": "consecutive_skips",
    "action_sigma": "action_std", "stddev": "std", "mirror_of_kind": "mirrors_by_type",
}  # fmt: skip
"""Old names, and the ones that replaced them."""

PHRASES = (
    "nobody", "somebody", "whoever", "anew", "lest", "told of", "tells of", "looked at", "forgiven", "gave up",
    "gives up", "give up", "going on with", "goes on with", "go on with", "whole house", "rules of the house",
    "judge", "judges", "judged", "longest gradient", "waits for the device", "in pieces", "verdict", "to blame",
)  # fmt: skip
"""Metaphors and unusual phrases in docstrings, comments, messages and documentation."""

SEED_NAMES = {"rsl_rl/storage/transition.py": {"action_sigma"}}
"""Names that users of rsl_rl know, in the file that accepts them."""


def texts(root):
    """Return the relative path and the text of every file in which the words may not occur."""
    paths = [path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in (".py", ".md")]
    return {str(path.relative_to(root)): path.read_text() for path in (*paths, root / "README.md")}


@pytest.mark.parametrize("name", NAMES)
def test_name_that_was_replaced_does_not_come_back(name, root):
    found = [path for path, text in texts(root).items() if re.search(rf"(?<!\w){name}(?!\w)", text)]
    assert [path for path in found if name not in SEED_NAMES.get(path, ())] == [], f"write {NAMES[name]}"


@pytest.mark.parametrize("phrase", PHRASES)
def test_phrase_is_not_used(phrase, root):
    pattern = re.compile(rf"\b{phrase}\b".replace(" ", r"\s+"), re.IGNORECASE)
    assert [path for path, text in texts(root).items() if pattern.search(text)] == []


def test_docstring_of_each_file_starts_with_a_capital(root):
    for path in (root / "rsl_rl").rglob("*.py"):
        first = path.read_text().split("\n", 1)[0]
        assert not first or re.match(r'"""[A-Z`]', first), path
